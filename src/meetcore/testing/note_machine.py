"""A stateful machine that runs notes against several stores and compares them after each step.

Notes that are asked for, claimed, left by workers that die, written step by step, postponed, paid, given up,
ended over a worker's head and erased: Hypothesis draws the play. After every step each store must have
answered alike and keep the same notes and money. It is used as `account_machine` is::

    class Play(NoteMachine):
        def __init__(self):
            super().__init__(runner.run, {"memory": MemoryRig(), "mine": MyRig()})
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from attrs import define, evolve, field
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from meetcore.domain.errors import DomainError
from meetcore.domain.notes.notes import Language, Note, NoteStatus, NoteStep
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.notes import NoteTask
from meetcore.testing.account_machine import Run
from meetcore.testing.contracts import note_transactions as transactions
from meetcore.testing.contracts.reads import money
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import Customer, new_endpoint, open_customer, register

__all__ = ["NoteMachine"]

which = st.integers(0, 5)
_HOUR_S = 3600.0


@define(slots=False)
class _NoteDriver:
    """Two customers with two recordings each on one store, and the workers' tasks, old ones too."""

    rig: StoreRig
    customers: list[Customer] = field(factory=list)
    recordings: list[tuple[Customer, Recording]] = field(factory=list)
    notes: list[Note] = field(factory=list)
    tasks: list[NoteTask] = field(factory=list)

    async def open(self) -> None:
        """Open the accounts."""
        await self.rig.reset()
        for _ in range(2):
            customer = await open_customer(self.rig, 40, cap=30)
            await register(self.rig, new_endpoint(customer, EventKind.NOTE_COMPLETED, EventKind.NOTE_FAILED))
            self.customers.append(customer)
            for _ in range(2):
                self.recordings.append((customer, await transactions.recorded(self.rig, customer)))

    async def ask(self, place: int, language: Language, price: int) -> object:
        """Ask for a note: that it is queued, or the code of the refusal."""
        customer, recording = self.recordings[place % len(self.recordings)]
        result = await transactions.ask(self.rig, customer, recording, language, price)
        if isinstance(result, DomainError):
            return result.code
        self.notes.append(result)
        return "queued"

    async def claim(self, limit: int, in_flight: int, seconds: float) -> object:
        """Claim: which notes, and how many workers died over them."""
        tasks = await transactions.claim_notes(self.rig, limit, in_flight, seconds)
        self.tasks += tasks
        return [
            (self.place(task.note), task.lease_expirations, task.note.step, task.note.tries) for task in tasks
        ]

    async def step(self, place: int) -> object:
        """Write the next step of a task, old or new; whether it was still the bearer's."""
        if not self.tasks:
            return None
        task = self.tasks[place % len(self.tasks)]
        order = list(NoteStep)
        step = order[min(order.index(task.note.step) + 1, len(order) - 1)]
        note = evolve(transactions.written(task.note), step=step)
        async with self.rig.store.begin() as tx:
            is_step_saved = await tx.notes.save_step(task, note)
            is_chunk_saved = await tx.notes.save_transcript_chunk(task, "s", place, transactions.TRANSCRIPT)
        self.tasks[place % len(self.tasks)] = evolve(task, note=note)
        return is_step_saved, is_chunk_saved

    async def postpone(self, place: int, seconds: float) -> object:
        """Give a task back; whether it was still the bearer's."""
        if not self.tasks:
            return None
        task = self.tasks[place % len(self.tasks)]
        tried = evolve(task.note, tries=task.note.tries + 1)
        async with self.rig.store.begin() as tx:
            return await tx.notes.postpone(task, tried, seconds)

    async def settle(self, place: int, price: int) -> object:
        """Complete a task; whether it was still the bearer's."""
        if not self.tasks:
            return None
        task = self.tasks[place % len(self.tasks)]
        return await transactions.settle(self.rig, task, price) is not None

    async def fail(self, place: int, *, has_lease: bool) -> object:
        """Give a note up, by its worker or over its head; whether it was in progress."""
        if not self.notes or (has_lease and not self.tasks):
            return None
        if has_lease:
            task = self.tasks[place % len(self.tasks)]
            ended = await transactions.give_up(self.rig, task)
        else:
            ended = await transactions.fail_unclaimed(self.rig, self.notes[place % len(self.notes)])
        return ended is not None

    async def erase(self, place: int) -> object:
        """Erase a note, if it is over."""
        if not self.notes:
            return None
        note = await transactions.find_note(self.rig, self.notes[place % len(self.notes)])
        if note.status not in (NoteStatus.COMPLETED, NoteStatus.FAILED):
            return False
        await transactions.erase(self.rig, note)
        return True

    def place(self, note: Note) -> int:
        """A note by the order in which they were asked for: ids differ from store to store."""
        return [known.id for known in self.notes].index(note.id)

    async def left(self) -> dict[str, object]:
        """What the store keeps, less what is its own."""
        found = [await transactions.find_note(self.rig, note) for note in self.notes]
        return {
            "notes": [
                (one.status, one.step, one.tries, one.credits_charged, one.error, one.draft, one.transcript)
                for one in found
            ],
            "money": [await money(self.rig, customer) for customer in self.customers],
            "holds": [sorted(await self.rig.holds(customer.account_id)) for customer in self.customers],
            "charges": [
                [entry.amount for entry in await self.rig.entries(customer.account_id)]
                for customer in self.customers
            ],
            "deliveries": [len(await self.rig.deliveries(one.account_id)) for one in self.customers],
        }


class NoteMachine(RuleBasedStateMachine):
    """Notes on every store at once.

    Args:
        run: runs each step; the stores' connections must belong to its loop.
        rigs: the stores by a name for the report. Each is emptied of what tests share when a play begins.
    """

    def __init__(self, run: Run, rigs: Mapping[str, StoreRig]) -> None:
        super().__init__()
        self._run = run
        self._drivers = {name: _NoteDriver(rig) for name, rig in rigs.items()}

    @initialize()
    def open(self) -> None:
        """Two customers with two recordings each."""
        self._play(lambda driver: driver.open())

    @rule(place=which, language=st.sampled_from(Language), price=st.integers(1, 12))
    def ask(self, place: int, language: Language, price: int) -> None:
        """Ask for a note, within balance, cap and existing notes."""
        self._play(lambda driver: driver.ask(place, language, price))

    @rule(limit=st.integers(0, 4), in_flight=st.integers(0, 4), is_expired=st.booleans())
    def claim(self, limit: int, in_flight: int, is_expired: bool) -> None:
        """Claim what is due, in a process that keeps running or stops at once."""
        self._play(lambda driver: driver.claim(limit, in_flight, -_HOUR_S if is_expired else _HOUR_S))

    @rule(place=which)
    def step(self, place: int) -> None:
        """Write a step, whichever worker has the note now."""
        self._play(lambda driver: driver.step(place))

    @rule(place=which, is_due=st.booleans())
    def postpone(self, place: int, is_due: bool) -> None:
        """Give a note back, due already or much later."""
        self._play(lambda driver: driver.postpone(place, -_HOUR_S if is_due else _HOUR_S))

    @rule(place=which, price=st.integers(1, 60))
    def settle(self, place: int, price: int) -> None:
        """Complete a note for what it cost in the end."""
        self._play(lambda driver: driver.settle(place, price))

    @rule(place=which, has_lease=st.booleans())
    def fail(self, place: int, has_lease: bool) -> None:
        """Give a note up."""
        self._play(lambda driver: driver.fail(place, has_lease=has_lease))

    @rule(place=which)
    def erase(self, place: int) -> None:
        """Erase a note."""
        self._play(lambda driver: driver.erase(place))

    def _play(self, action: Callable[[_NoteDriver], Coroutine[Any, Any, object]]) -> None:
        for driver in self._drivers.values():
            clock = getattr(driver.rig, "clock", None)
            if clock is not None:  # a clock that stands still knows no order
                clock.advance(0.001)
        self._compare({name: self._run(action(driver)) for name, driver in self._drivers.items()})
        left = {name: self._run(driver.left()) for name, driver in self._drivers.items()}
        self._compare(left)
        for snapshot in left.values():
            _prove(snapshot)

    def _compare(self, results: Mapping[str, object]) -> None:
        (first, expected), *others = results.items()
        for name, found in others:
            assert found == expected, f"{name} is not as {first}"


def _prove(snapshot: dict[str, Any]) -> None:
    notes = snapshot["notes"]
    in_progress = [one for one in notes if one[0] in (NoteStatus.QUEUED, NoteStatus.PROCESSING)]
    held = [amount for of_one in snapshot["holds"] for amount in of_one]
    assert len(held) == len(in_progress), "held is what notes in progress hold"
    assert [sum(of_one) for of_one in snapshot["holds"]] == [held for _, held, _, _ in snapshot["money"]]
    charged = [-amount for of_one in snapshot["charges"] for amount in of_one[1:]]
    assert sorted(charged) == sorted(one[3] for one in notes if one[3]), "each note is charged at most once"
