"""The memo of a meeting is read as it was written, and nothing else is read as one."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings.meetings import Meeting, MeetingOptions, MeetingStatus
from meetcore.domain.meetings.memos import InvalidMemo, MeetingMemo, decode_memo, encode_memo, memo_of

AT = datetime(2026, 12, 1, 3, 0, 0, 123_456, tzinfo=UTC)
MEMO = MeetingMemo(
    UUID(int=1), UUID(int=2), "standard-100", 15, 100, MeetingOptions(with_recording=True, mic_off=True),
    AT, 60, AT, "a-key", bytes(range(32)),
)  # fmt: skip


@given(
    credits=st.integers(0, 10**15), capacity=st.none() | st.integers(1, 10_000),
    flags=st.tuples(*(st.booleans() for _ in range(5))),
    key=st.none() | st.text(alphabet=[chr(code) for code in range(33, 127)], min_size=1, max_size=255),
    at=st.integers(0, 10**8).map(lambda number: AT + number * timedelta(seconds=1, microseconds=77)),
)  # fmt: skip
def test_a_memo_is_read_as_it_was_written(
    credits: int, capacity: int | None, flags: tuple[bool, ...], key: str | None, at: datetime
) -> None:
    memo = evolve(
        MEMO, credits=credits, capacity=capacity, options=MeetingOptions(*flags), idempotency_key=key,
        fingerprint=None if key is None else MEMO.fingerprint, created_at=at,
    )  # fmt: skip
    assert decode_memo(encode_memo(memo)) == memo


def test_the_memo_of_a_meeting_has_what_its_charge_and_its_retry_need() -> None:
    meeting = Meeting(
        id=UUID(int=3), account_id=MEMO.account_id, api_key_id=MEMO.api_key_id,
        status=MeetingStatus.PROVISIONING, title="Rapat", description=None, start_at=MEMO.start_at,
        end_at=MEMO.start_at + timedelta(hours=1), duration=MEMO.duration, capacity=100,
        pricing_tier_id=MEMO.pricing_tier_id, credits=MEMO.credits, options=MEMO.options, host_id=UUID(int=4),
        provider="zoom", created_at=MEMO.created_at,
    )  # fmt: skip
    assert memo_of(meeting, MEMO.idempotency_key, MEMO.fingerprint) == MEMO


def test_the_longest_memo_leaves_room_for_the_longest_description() -> None:
    longest = evolve(MEMO, idempotency_key="k" * 255, pricing_tier_id="t" * 60)
    sealed = len(encode_memo(longest)) + 33
    assert 4 * sealed / 3 + 1000 + 60 < 2000


def test_options_that_a_later_release_added_are_false() -> None:
    earlier = encode_memo(MEMO).replace(b'"10010"', b'"10"')
    assert decode_memo(earlier).options == MeetingOptions(with_recording=True)


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b"null",
        b"\xff",
        encode_memo(MEMO)[:-2],
        encode_memo(MEMO).replace(b"[1,", b"[2,"),
    ],
)
def test_what_is_no_memo_is_refused(encoded: bytes) -> None:
    with pytest.raises(InvalidMemo):
        decode_memo(encoded)
