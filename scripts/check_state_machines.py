"""docs/state-machines.md, drawn from the tables of the domain: diagram, grid and events of each machine.

Without arguments it writes the page; with `--check` it writes nothing and exits 1 where the page no
longer matches the tables. An event of the domain without a line here ends it with an error.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path
from textwrap import fill
from typing import Any

from attrs import Attribute, field, frozen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "state-machines.md"
sys.path.insert(0, str(ROOT / "src"))

from meetcore.domain.mails import mails  # noqa: E402  # the path comes first
from meetcore.domain.mails.mails import MailEvent  # noqa: E402
from meetcore.domain.meetings import meetings  # noqa: E402  # the path comes first
from meetcore.domain.meetings.meetings import MeetingEvent  # noqa: E402
from meetcore.domain.notes import notes, recordings  # noqa: E402  # the path comes first
from meetcore.domain.notes.notes import NoteEvent  # noqa: E402
from meetcore.domain.notes.recordings import RecordingEvent  # noqa: E402
from meetcore.domain.requests import idempotency  # noqa: E402  # the path comes first
from meetcore.domain.requests.idempotency import KeyEvent  # noqa: E402
from meetcore.domain.webhooks import deliveries, endpoints  # noqa: E402  # the path comes first
from meetcore.domain.webhooks.deliveries import DeliveryEvent  # noqa: E402
from meetcore.domain.webhooks.endpoints import EndpointEvent  # noqa: E402

HEAD = """# State machines

Each machine is one table in the domain, and this page is drawn from those tables by
`python scripts/check_state_machines.py`: do not edit it. An arrow that is not
there is illegal and changes nothing; in the grids its cell is empty. Whether an
illegal event is passed over or raises is said with each machine.
"""


def _members(member: Enum) -> list[Any]:
    return list(type(member))


def _events(machine: Machine) -> list[Any]:
    return _members(next(iter(machine.table))[1])


def _all_described(machine: Machine, _: Attribute[Mapping[Any, str]], events: Mapping[Any, str]) -> None:
    """Refuse a machine with an event that is not described."""
    untold = [event.name for event in _events(machine) if event not in events]
    if untold:
        raise ValueError(
            f"{machine.title}: scripts/{Path(__file__).name} has no line for {', '.join(untold)}"
        )


@frozen
class Machine:
    """A table, the state in which it begins, and its description.

    `illegal` describes the effect of an event that is illegal in a state; `events` describes each event's
    sender and meaning.
    """

    title: str
    source: str
    table: Mapping[tuple[Any, Any], Any]
    starts: Any
    text: str
    illegal: str
    events: Mapping[Any, str] = field(validator=_all_described)


MACHINES = (
    Machine(
        "Meeting",
        "meetcore.domain.meetings.meetings.TRANSITIONS",
        meetings.TRANSITIONS,
        meetings.MeetingStatus.PROVISIONING,
        "Customers see neither `provisioning` nor `abandoned`, and `cancelling` as `scheduled`. What is "
        "shown also follows the clock: `started` from `start_at` on, `ended` from `end_at` on.",
        "`meetings.transition` raises `ValueError`. What a provider reports too late or twice is passed over "
        "before it gets there.",
        {
            MeetingEvent.PROVISIONED: "the request that creates it, or the reconciler after a crash: the "
            "provider has made it, and it is paid",
            MeetingEvent.ABANDON: "the same: the provider has made nothing, and the hold is released",
            MeetingEvent.CANCEL: "the customer's request, before the start: the provider is to remove it",
            MeetingEvent.CANCEL_FAILED: "the cancellation: the provider refuses, nothing is refunded",
            MeetingEvent.CANCELLED: "the cancellation: the provider has removed it, the charge is refunded",
            MeetingEvent.START: "the provider's report: it has begun",
            MeetingEvent.END: "the provider's report, or a cancellation that found it running: it is over, "
            "nothing is refunded",
        },
    ),
    Machine(
        "Recording",
        "meetcore.domain.notes.recordings.TRANSITIONS",
        recordings.TRANSITIONS,
        recordings.RecordingStatus.MEASURING,
        "Customers see none that is `measuring`. One that is `available` is measured again when more of it "
        "comes. The files of an `expired` one are removed at the provider, those that come later too.",
        "the functions of `recordings` give the recording back as it is, and raise nothing.",
        {
            RecordingEvent.MEASURE: "`measure`, by the worker: the length of all of its media is known",
            RecordingEvent.EXPIRE: "`expire`: it is past its retention, or its owner deleted it",
        },
    ),
    Machine(
        "Note",
        "meetcore.domain.notes.notes.TRANSITIONS",
        notes.TRANSITIONS,
        notes.NoteStatus.QUEUED,
        "While a note is in progress, credits are held for it, and its step names what is to be done next: "
        f"{', '.join(f'`{step}`' for step in notes.NoteStep)}. A provider's transcript spares `transcribe`. "
        "`erased` is answered as one that is gone.",
        "`notes.complete`, `notes.fail` and `notes.erase` raise `ValueError`; a store returns no note "
        "that cannot be taken.",
        {
            NoteEvent.TAKE: "a worker, under a lease: a new note, one that waited, or one whose worker died",
            NoteEvent.COMPLETE: "its worker, with the last step: it is written and paid for",
            NoteEvent.FAIL: "its worker, for what will not pass or did not pass in time; or the end of its "
            "recording, without its worker",
            NoteEvent.ERASE: "the customer's request, with the deletion of its recording",
        },
    ),
    Machine(
        "Webhook endpoint",
        "meetcore.domain.webhooks.endpoints.TRANSITIONS",
        endpoints.TRANSITIONS,
        endpoints.EndpointState.ACTIVE,
        f"`disable` is the failure that is the {endpoints.DISABLE_AFTER_FAILURES}th in a row. Only `active` "
        "is sent to. Pausing a disabled endpoint leaves it disabled, and resuming it starts the count again.",
        "the functions of `endpoints` give the endpoint back as it is, and raise nothing.",
        {
            EndpointEvent.SUCCEEDED: "`record_success`, after a post: the receiver took it, the count of "
            "failures is 0 again",
            EndpointEvent.FAILED: "`record_failure`, after a post: one more failure in a row",
            EndpointEvent.DISABLE: "`record_failure`, after the failure that is the 20th in a row",
            EndpointEvent.PAUSE: "`pause`, at the customer's wish (`is_active` false): the count stays",
            EndpointEvent.RESUME: "`resume`, at the customer's wish (`is_active` true): what was disabled "
            "starts to count again",
        },
    ),
    Machine(
        "Webhook delivery",
        "meetcore.domain.webhooks.deliveries.TRANSITIONS",
        deliveries.TRANSITIONS,
        deliveries.DeliveryStatus.PENDING,
        "A delivery is `held` while its endpoint is not active, and while it waits for its turn. A post that "
        "was in flight at that moment is still judged.",
        "the functions of `deliveries` give the delivery back as it is, and raise nothing: an attempt on a "
        "final one belongs to a worker that lost the claim, and changes the endpoint neither.",
        {
            DeliveryEvent.SUCCEED: "`record_attempt`, after a post: the receiver answered 2xx",
            DeliveryEvent.RETRY: "`record_attempt`: it did not, and the schedule has another attempt",
            DeliveryEvent.FAIL: "`record_attempt`: the schedule is exhausted, or the receiver answered 410. "
            "`give_up`: its event is past its retention",
            DeliveryEvent.HOLD: "`hold`: the endpoint was paused or disabled, or is so when the event comes",
            DeliveryEvent.RELEASE: "`release`: the endpoint was resumed; in portions, the oldest first",
            DeliveryEvent.EXPIRE: "`expire`, by the worker's sweep: it was held for "
            f"{deliveries.HELD_FOR // timedelta(hours=1)} hours",
            DeliveryEvent.RECOVER: "`recover`, at the customer's wish: it waits for its turn, its schedule "
            "begins anew",
        },
    ),
    Machine(
        "Mail",
        "meetcore.domain.mails.mails.TRANSITIONS",
        mails.TRANSITIONS,
        mails.MailStatus.PENDING,
        "`sent`: the mail server has taken it. A mail that is over has no content any more, and is kept for "
        f"{mails.MAILS_KEPT.days} days.",
        "the functions of `mails` give the mail back as it is, and raise nothing: the attempt belongs to a "
        "worker that lost the claim.",
        {
            MailEvent.SEND: "`record_sent`, after an attempt: the mail server took it",
            MailEvent.RETRY: "`record_failure`: it did not, and the schedule has another attempt",
            MailEvent.FAIL: "`record_failure`: the schedule is exhausted, or it is refused for ever",
            MailEvent.EXPIRE: "`expire`, before an attempt: its link has expired, or its news is a day old",
        },
    ),
    Machine(
        "Idempotency key",
        "meetcore.domain.requests.idempotency.TRANSITIONS",
        idempotency.TRANSITIONS,
        idempotency.KeyState.UNKNOWN,
        "`unknown`: there is no record. `bound`: an earlier try ended in something temporary, and the key "
        "belongs to that request, which may try again. `running`: work goes on beyond a transaction, under a "
        "lease. `expired`: the lease ran out, so its process is presumed dead, and one repeated request or "
        "the sweep takes over. `done`: the answer is kept and replayed. Only keys on which nothing runs are "
        f"purged, {idempotency.KEY_RETENTION_HOURS} hours after they were first seen.",
        "nothing takes it. The domain decides what a request is to do (below), and a store writes "
        "the record together with what it is about.",
        {
            KeyEvent.CLAIM: "a request with the key: it begins work that goes on beyond its transaction",
            KeyEvent.TAKE_OVER: "a repeated request, or the sweep: the work goes on under a new lease",
            KeyEvent.EXPIRE: "the clock: the lease ran out. Never written",
            KeyEvent.FINISH: "the process that does the work: there is a result, or a refusal that is final",
            KeyEvent.GIVE_UP: "the process that does the work: it ended in something temporary, such as an "
            "unavailable provider; only the owner of the key is kept",
            KeyEvent.PURGE: "housekeeping: the key is new again",
        },
    ),
)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` report whether it is stale."""
    wanted = page()
    is_current = PAGE.exists() and PAGE.read_text("utf-8") == wanted
    if arguments != ["--check"]:
        PAGE.write_text(wanted, "utf-8")
        return 0
    if not is_current:
        print(f"docs/{PAGE.name} is stale: run python scripts/check_state_machines.py", file=sys.stderr)
    return 0 if is_current else 1


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for machine in MACHINES:
        text = fill(f"From `{machine.source}`. {machine.text}", 110, break_on_hyphens=False)
        parts.append(f"## {machine.title}\n\n{text}\n")
        parts.append(f"```mermaid\n{diagram(machine)}\n```\n")
        parts.append(grid(machine))
        parts.append(fill(f"An illegal event: {machine.illegal}", 110, break_on_hyphens=False) + "\n")
        parts.append(event_list(machine))
    parts.append(
        "### What a request with a known key gets\n\nFrom `meetcore.domain.requests.idempotency.DECISIONS`.\n"
    )
    parts.append(decisions())
    return "\n".join(parts)


def diagram(machine: Machine) -> str:
    """The table as a Mermaid state diagram; events with the same way share an arrow."""
    arrows: dict[tuple[Any, Any], list[str]] = {}
    for (state, event), target in machine.table.items():
        arrows.setdefault((state, target), []).append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {machine.starts.value}"]
    lines += [
        f"    {state.value} --> {target.value}: {', '.join(sorted(events))}"
        for (state, target), events in arrows.items()
    ]
    left = {state for state, _ in machine.table}
    ends = [state for state in _members(machine.starts) if state not in left]
    return "\n".join(lines + [f"    {state.value} --> [*]" for state in ends])


def grid(machine: Machine) -> str:
    """Every pair of state and event; an empty cell is illegal."""
    states = _members(machine.starts)
    events = _events(machine)
    rows = [
        [state.value] + [_target(machine.table.get((state, event))) for event in events] for state in states
    ]
    return _table(["state \\ event", *(event.value for event in events)], rows)


def event_list(machine: Machine) -> str:
    """Return the table of each event's sender and meaning."""
    rows = [[event.value, machine.events[event]] for event in _events(machine)]
    return _table(["event", "who sends it, and what it means"], rows)


def decisions() -> str:
    """Return the table of verdicts, by the key's state and whether its fingerprint is the same."""
    rows = [
        [state.value, idempotency.DECISIONS[state, True].value, idempotency.DECISIONS[state, False].value]
        for state in idempotency.KeyState
    ]
    return _table(["state", "same request", "another request"], rows)


def _target(state: Any) -> str:
    return "" if state is None else str(state.value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
