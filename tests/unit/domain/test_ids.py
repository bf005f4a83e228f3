"""Identifiers: their layout by RFC 9562, and which texts are one."""

import re
from datetime import UTC, datetime, timedelta, timezone
from uuid import RFC_4122, UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import NotFound
from meetcore.domain.ids import RANDOM_BYTES, first_id, id_bound, instant_of, parse_id, uuid7

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = (1 << 47) - 1  # the year 6429; the field has 48 bits

millis = st.integers(0, LAST_MS)
randoms = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


def instant(ms: int, us: int = 0) -> datetime:
    return EPOCH + timedelta(milliseconds=ms, microseconds=us)


def test_the_example_of_the_rfc() -> None:
    random = bytes.fromhex("0cc3") + (0x18C4DC0C0C07398F).to_bytes(8, "big")
    assert uuid7(instant(1645557742000), random) == UUID("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")


@given(millis, st.integers(0, 999), randoms)
def test_an_id_is_a_uuid_of_version_7_that_encodes_its_millisecond(ms: int, us: int, random: bytes) -> None:
    made = uuid7(instant(ms, us), random)
    assert made.version == 7
    assert made.variant == RFC_4122
    assert made.int >> 80 == ms


@given(millis, st.integers(-14 * 60, 14 * 60), randoms)
def test_the_time_zone_does_not_matter(ms: int, minutes: int, random: bytes) -> None:
    in_zone = instant(ms).astimezone(timezone(timedelta(minutes=minutes)))
    assert uuid7(in_zone, random) == uuid7(instant(ms), random)


@given(st.lists(st.tuples(millis, randoms), min_size=2, max_size=20))
def test_ids_sort_by_their_millisecond_as_numbers_and_as_texts(drawn: list[tuple[int, bytes]]) -> None:
    made = [uuid7(instant(ms), random) for ms, random in drawn]
    assert [one.int >> 80 for one in sorted(made)] == sorted(ms for ms, _ in drawn)
    assert sorted(map(str, made)) == [str(one) for one in sorted(made)]


@given(millis, st.integers(0, RANDOM_BYTES * 8 - 1))
def test_74_of_the_random_bits_are_in_the_id(ms: int, bit: int) -> None:
    one = uuid7(instant(ms), (1 << bit).to_bytes(RANDOM_BYTES, "big"))
    is_used = not 62 <= bit < 64 and bit < 76
    assert (one != uuid7(instant(ms), bytes(RANDOM_BYTES))) == is_used


@given(randoms, st.binary(max_size=6))
def test_random_bytes_beyond_ten_are_ignored(random: bytes, more: bytes) -> None:
    assert uuid7(EPOCH, random + more) == uuid7(EPOCH, random)


@given(st.binary(max_size=RANDOM_BYTES - 1))
def test_too_few_random_bytes_are_refused(random: bytes) -> None:
    with pytest.raises(ValueError, match="10 random bytes"):
        uuid7(EPOCH, random)


@given(st.uuids())
def test_an_id_reads_back_in_either_case(made: UUID) -> None:
    assert parse_id(str(made), "meeting") == made
    assert parse_id(str(made).upper(), "meeting") == made


# Each of these is read by `uuid.UUID`, and none is an id.
@given(
    st.one_of(
        st.text(max_size=40),
        st.text("0123456789abcdefABCDEF-{}:urn_ \u0661\u0662", min_size=34, max_size=38),
        st.uuids().map(lambda one: one.hex),
        st.uuids().map(lambda one: f"{{{one}}}"),
        st.uuids().map(lambda one: f"{one}\n"),
    )
)
@example("urn:00000000000000000000000000000000")
@example("{{11111111111111111111111111111111}}")
@example("----11111111111111111111111111111111")
@example("0193-00000000-7000-8000-000000000001")
@example("0x000000-0000-0000-0000-000000000000")
@example("1_000000-0000-0000-0000-000000000000")
@example("\u06611000000-0000-0000-0000-000000000000")
@example(" 1000000-0000-0000-0000-000000000000")
def test_only_the_canonical_form_is_an_id(text: str) -> None:
    if re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", text.lower()):
        assert str(parse_id(text, "meeting")) == text.lower()
    else:
        with pytest.raises(NotFound) as refused:
            parse_id(text, "meeting")
        assert refused.value.message == "No meeting with this id."
        assert refused.value.details == {}


@given(millis, st.integers(0, 999), millis, randoms)
@example(0, 0, 0, bytes(RANDOM_BYTES))
@example(1, 999, 1, b"\xff" * RANDOM_BYTES)
@example(1, 0, 2, bytes(RANDOM_BYTES))
def test_a_bound_is_above_the_ids_up_to_its_millisecond_and_above_no_other(
    at: int, us: int, made: int, random: bytes
) -> None:
    assert (uuid7(instant(made), random) < id_bound(instant(at, us))) == (made <= at)


@given(millis, millis, st.integers(0, 999), randoms)
def test_the_ids_of_an_instant_and_later_ones_are_not_below_its_first(
    made: int, at: int, us: int, random: bytes
) -> None:
    assert (uuid7(instant(made), random) >= first_id(instant(at, us))) == (made >= at)


@pytest.mark.parametrize("at", [datetime(1, 1, 1, tzinfo=UTC), EPOCH - timedelta(microseconds=1)])
def test_no_id_is_below_a_bound_before_the_first_instant(at: datetime) -> None:
    assert id_bound(at) == UUID(int=0)


def test_the_last_instant_has_a_bound() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert id_bound(last) > uuid7(last, b"\xff" * RANDOM_BYTES)


@given(millis, st.integers(0, 999), randoms)
def test_an_id_gives_its_millisecond_back(at: int, us: int, random: bytes) -> None:
    assert instant_of(uuid7(instant(at, us), random)) == instant(at)


@pytest.mark.parametrize("id", [
    UUID(int=0), UUID(int=4 << 76 | 0b10 << 62), UUID(int=uuid7(EPOCH, bytes(RANDOM_BYTES)).int | 1 << 127),
])  # fmt: skip
def test_other_ids_have_no_instant(id: UUID) -> None:
    assert instant_of(id) is None
