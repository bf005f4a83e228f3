"""What a round of the partitions reports."""

from datetime import datetime, timedelta

from attrs import define, field

from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.ports.partitions import Maintained, PartitionRules, PartitionsRefused
from meetcore.testing.memory_rig import START
from meetcore.usecases.maintain_partitions import MaintainPartitions
from meetcore.usecases.runtime import Runtime

RULES = PartitionRules(kept=timedelta(days=30))


@define
class Place:
    """Partitions with given answers."""

    done: Maintained = field(factory=Maintained)
    refusal: str = ""
    asked: list[tuple[str, datetime, PartitionRules]] = field(factory=list)

    async def plan(self, now: datetime, rules: PartitionRules) -> Maintained:
        self.asked.append(("plan", now, rules))
        return self.done

    async def maintain(self, now: datetime, rules: PartitionRules) -> Maintained:
        self.asked.append(("maintain", now, rules))
        if self.refusal:
            raise PartitionsRefused(self.refusal)
        return self.done


async def reports_of(place: Place) -> tuple[list[Maintained], list[tuple[Maintained, str]]]:
    done: list[Maintained] = []
    refused: list[tuple[Maintained, str]] = []
    runtime = Runtime(ManualClock(START), SeededEntropy(1))
    await MaintainPartitions(
        place, runtime, RULES, done.append, lambda found, reason: refused.append((found, reason))
    )()
    return done, refused


async def test_a_round_that_changed_something_or_could_not_is_reported() -> None:
    for done in (
        Maintained(made=("a",)), Maintained(dropped=("b",)), Maintained(waiting=("c",)),
        Maintained(is_busy=True), Maintained(is_fenced=True), Maintained(problems=("d",)),
    ):  # fmt: skip
        place = Place(done)
        assert await reports_of(place) == ([done], [])
        assert place.asked == [("maintain", START, RULES)]


async def test_a_round_with_nothing_to_do_is_not() -> None:
    assert await reports_of(Place(Maintained(ahead=4))) == ([], [])
    assert await reports_of(Place(Maintained())) == ([], [])


async def test_a_refusal_is_reported_with_how_things_stand() -> None:
    found = Maintained(made=("a",), ahead=1)
    place = Place(found, "not the owner")
    assert await reports_of(place) == ([], [(found, "not the owner")])
    assert [what for what, *_ in place.asked] == ["maintain", "plan"]
