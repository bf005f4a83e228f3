"""Which partitions are to be made and which dropped."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.postgres.partitions.layout import KEYS, MARK, Layout, Partition, layout_of
from meetcore.adapters.postgres.partitions.plan import (
    Extension,
    behind,
    extension_of,
    gaps_of,
    name_of,
    past_retention,
    planned_drops,
    planned_names,
)
from meetcore.domain.ids import first_id, uuid7
from meetcore.ports.partitions import PartitionRules

RULES = PartitionRules()
WEEK = RULES.length
MONDAY = datetime(2026, 11, 30, tzinfo=UTC)
NOW = MONDAY + timedelta(days=2, hours=5)
FIRST = Partition("events", "events_first")


def applied(partitions: list[Partition], extension: Extension) -> list[Partition]:
    """The partitions after an extension."""
    table, last, bounds = extension.table, extension.last, extension.bounds
    kept = [one for one in partitions if one is not last]
    if last is not None:
        kept.append(Partition(table, last.name, last.lower, bounds[0]))
    ends = [*bounds[1:], None]
    made = [Partition(table, name_of(table, low), low, high) for low, high in zip(bounds, ends, strict=True)]
    return [*kept, *made]


def extended(partitions: list[Partition], now: datetime, rules: PartitionRules = RULES) -> list[Partition]:
    extension = extension_of("events", partitions, now, rules)
    return partitions if extension is None else applied(partitions, extension)


def ahead(partitions: list[Partition], now: datetime) -> int:
    return Layout({"events": partitions}).ahead(now)


def assert_whole(partitions: list[Partition]) -> None:
    """Each id has one partition, and each partition a name."""
    assert partitions[-1].upper is None
    for one, following in pairwise(partitions):
        assert one.upper == following.lower
        assert one.begins < following.begins
    assert len({one.name for one in partitions}) == len(partitions)


def test_a_week_begins_on_monday() -> None:
    assert RULES.begin_of(NOW) == MONDAY
    assert RULES.begin_of(MONDAY) == MONDAY
    assert RULES.begin_of(MONDAY - timedelta(milliseconds=1)) == MONDAY - WEEK


def test_the_first_partition_ends_where_no_clock_has_been() -> None:
    extension = extension_of("events", [FIRST], NOW, RULES)
    assert extension is not None
    assert extension.last is FIRST
    assert extension.bounds == tuple(first_id(MONDAY + weeks * WEEK) for weeks in (2, 3, 4, 5, 6))
    assert extension.names == (
        "events_20261214", "events_20261221", "events_20261228", "events_20270104", "events_20270111",
    )  # fmt: skip


def test_a_round_a_week_keeps_enough_ahead() -> None:
    partitions = extended([FIRST], NOW)
    for week in range(60):
        now = NOW + week * WEEK
        partitions = extended(partitions, now)
        assert extension_of("events", partitions, now, RULES) is None
        assert_whole(partitions)
        assert ahead(partitions, now) == RULES.ahead
    assert {one.upper.int - one.lower.int for one in partitions[1:-1] if one.upper and one.lower} == {
        first_id(MONDAY + WEEK).int - first_id(MONDAY).int
    }


@given(
    st.lists(st.timedeltas(timedelta(0), timedelta(days=100)), min_size=1, max_size=8),
    st.lists(st.sampled_from([1, 5, 7, 30]), min_size=8, max_size=8),
)
def test_each_id_has_a_partition_whenever_rounds_are_and_however_long_a_partition_is(
    pauses: list[timedelta], lengths: list[int]
) -> None:
    partitions, now = [FIRST], NOW
    for pause, days in zip(pauses, lengths, strict=False):
        now += pause
        rules = PartitionRules(length=timedelta(days=days))
        extension = extension_of("events", partitions, now, rules)
        if extension is not None and extension.last is not None and extension.last.begins <= first_id(now):
            assert extension.bounds[0] >= first_id(now + rules.length), "where no clock has been"
        partitions = extended(partitions, now, rules)
        assert_whole(partitions)
        assert extension_of("events", partitions, now, rules) is None
        assert ahead(partitions, now) >= rules.ahead


def test_a_table_whose_open_partition_was_taken_away_gets_another() -> None:
    partitions = extended([FIRST], NOW)[:-1]
    mended = extended(partitions, NOW)
    assert mended[: len(partitions)] == partitions
    assert_whole(mended)
    assert_whole([Partition("events", "x", None, first_id(MONDAY)), *extended([], NOW)])


def layout(weeks: int, **others: list[Partition]) -> Layout:
    """Each table with so many ended partitions, the oldest first."""
    bounds = [None, *(first_id(MONDAY + week * WEEK) for week in range(weeks)), None]
    found = {
        table: [Partition(table, f"{table}_{place}", *ends) for place, ends in enumerate(pairwise(bounds))]
        for table in KEYS
    }
    return Layout(found | others)


AFTER_THREE = MONDAY + 2 * WEEK + RULES.kept
"""When three partitions are past their retention."""


def names(partitions: list[Partition]) -> list[str]:
    return [one.name for one in partitions]


def test_what_is_past_its_retention_goes_to_the_millisecond() -> None:
    found = layout(5)
    assert names(past_retention(found, "events", AFTER_THREE, RULES)) == ["events_0", "events_1", "events_2"]
    just_before = AFTER_THREE - timedelta(milliseconds=1)
    assert names(past_retention(found, "events", just_before, RULES)) == ["events_0", "events_1"]


def test_nothing_goes_that_another_table_needs() -> None:
    whole = layout(5)
    assert past_retention(whole, "deliveries", AFTER_THREE, RULES) == []
    assert past_retention(whole, "delivery_attempts", AFTER_THREE, RULES) == []
    without = layout(5, events=list(whole.partitions["events"][2:]))
    assert names(past_retention(without, "deliveries", AFTER_THREE, RULES)) == [
        "deliveries_0",
        "deliveries_1",
    ]


def test_the_open_partition_never_goes() -> None:
    far = AFTER_THREE + timedelta(days=9999)
    assert "events_5" not in names(past_retention(layout(5), "events", far, RULES))


def test_a_plan_drops_events_before_deliveries_before_attempts_and_keeps_what_is_unfinished() -> None:
    dropped, waiting = planned_drops(layout(5), AFTER_THREE, RULES, ["deliveries_1"])
    assert waiting == ["deliveries_1"]
    assert dropped == [
        "events_0", "events_1", "events_2", "deliveries_0", "deliveries_2", "delivery_attempts_0",
    ]  # fmt: skip


def test_what_is_detached_is_dropped_first() -> None:
    found = Layout(layout(1).partitions, ["events_20200101"])
    assert planned_drops(found, NOW, RULES, []) == (["events_20200101"], [])


def row(bounds: str) -> dict[str, object]:
    return {
        "of_table": "events", "name": "x", "bounds": bounds, "is_detaching": False, "mark": None,
        "options": None, "has_proof": False,
    }  # fmt: skip


def test_bounds_are_read_as_the_server_writes_them() -> None:
    low, high = first_id(MONDAY), first_id(MONDAY + WEEK)
    found = layout_of(
        [
            row(f"FOR VALUES FROM ('{high}') TO (MAXVALUE)"),
            row(f"FOR VALUES FROM (MINVALUE) TO ('{low}')"),
            row(f"FOR VALUES FROM ('{low}') TO ('{high}')"),
        ]
    )
    bounds = [(one.lower, one.upper) for one in found.partitions["events"]]
    assert bounds == [(None, low), (low, high), (high, None)]


def test_a_partition_of_another_kind_is_reported_and_its_table_left() -> None:
    found = layout_of([row("DEFAULT"), row("FOR VALUES FROM (MINVALUE) TO (MAXVALUE)")])
    assert found.unknown == {"events": ["x"]}
    assert len(found.partitions["events"]) == 1
    assert ["x is a partition of events" in one for one in found.problems] == [True]
    beside = evolve(layout(5), unknown={"events": ["x"]})
    assert past_retention(beside, "events", AFTER_THREE, RULES) == []
    assert {name.rpartition("_")[0] for name in planned_names(beside, list(KEYS), NOW, RULES)} == {
        "deliveries", "delivery_attempts",
    }  # fmt: skip


def test_what_is_outside_of_a_table_is_to_be_dropped_or_kept_by_its_mark() -> None:
    outside = row("") | {"of_table": None, "bounds": None}
    found = layout_of([outside | {"name": "a", "mark": MARK}, outside | {"name": "b"}])
    assert (found.detached, found.kept) == (["a"], ["b"])
    assert found.names == {"a", "b"}


def test_a_name_that_is_taken_gets_a_number() -> None:
    low = first_id(MONDAY)
    assert name_of("events", low, ["events_20261207"]) == "events_20261130"
    assert name_of("events", low, ["events_20261130"]) == "events_20261130_2"
    assert name_of("events", low, ["events_20261130", "events_20261130_2"]) == "events_20261130_3"
    extension = extension_of("events", [FIRST], NOW, RULES, ["events_20261221"])
    assert extension is not None
    assert extension.names[:3] == ("events_20261214", "events_20261221_2", "events_20261228")


def test_a_gap_is_found_unless_it_is_past_the_retention() -> None:
    whole = layout(5)
    assert gaps_of(whole, "events", NOW, RULES) == []
    partitions = [one for one in whole.partitions["events"] if one.name not in ("events_2", "events_3")]
    found = evolve(whole, partitions={**whole.partitions, "events": partitions})
    [gap] = gaps_of(found, "events", NOW, RULES)
    assert (gap.lower, gap.upper) == (first_id(MONDAY + WEEK), first_id(MONDAY + 3 * WEEK))
    assert gap.name == "events_20261207"
    over = MONDAY + 3 * WEEK + RULES.kept
    assert gaps_of(found, "events", over - timedelta(milliseconds=1), RULES) == [gap]
    assert gaps_of(found, "events", over, RULES) == []


def test_a_partition_ends_behind_the_greatest_id_of_a_clock_that_is_not_too_far_ahead() -> None:
    extension = extension_of("events", [FIRST], NOW, RULES)
    assert extension is not None
    assert behind(extension, first_id(NOW), NOW, RULES) is None, "an id without a version has no time"
    for at in (NOW - 9 * WEEK, NOW):
        assert behind(extension, uuid7(at, bytes(10)), NOW, RULES) == extension
    later = behind(extension, uuid7(NOW + 3 * WEEK, bytes(10)), NOW, RULES)
    assert later is not None
    assert later.bounds == tuple(first_id(MONDAY + weeks * WEEK) for weeks in (5, 6, 7, 8, 9))
    assert behind(extension, uuid7(NOW + RULES.kept, bytes(10)), NOW, RULES) is not None
    assert behind(extension, uuid7(NOW + RULES.kept + WEEK, bytes(10)), NOW, RULES) is None
