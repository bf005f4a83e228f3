"""The end of a cancellation: which answers of the provider return the charge."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.meetings.cancellation import (
    REFUNDED,
    ProviderMeetingState,
    conclude,
    give_back_recording,
)
from meetcore.domain.meetings.meetings import Meeting, MeetingEnded, MeetingStatus
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import open_account, post, refund, top_up
from meetcore.domain.money.transfers import Book, Reference, Transfer, TransferKind
from tests.unit.domain.meetings.test_meetings import ID, MEETING, START

REMOVED, IN_PROGRESS, OVER, GONE = ProviderMeetingState
NOW = START - timedelta(hours=1)
REFUND_ID = UUID(int=9)
CHARGE = Transfer(
    UUID(int=8), "meeting:1", TransferKind.MEETING_CHARGE, 10, Book.CUSTOMER, Book.MEETINGS,
    Reference("meeting", str(ID)), api_key_id=ID, cap_day=cap_day(NOW),
)  # fmt: skip
FUNDS = post(top_up(open_account(ID), UUID(int=7), "first", 25, NOW).funds, CHARGE, NOW).funds
USAGE = CapUsage(ID, cap_day(NOW), spent=10)
CANCELLING = evolve(MEETING, status=MeetingStatus.CANCELLING)


@pytest.mark.spec("3/cancel-before")
@pytest.mark.parametrize("state", [REMOVED, GONE, OVER])
@pytest.mark.parametrize("key", [None, ChainKey.of(b"k" * 32)])
def test_a_meeting_that_did_not_take_place_is_refunded_whole(
    state: ProviderMeetingState, key: ChainKey | None
) -> None:
    done = conclude(CANCELLING, state, CHARGE, FUNDS, USAGE, REFUND_ID, NOW, key)
    posting = refund(FUNDS, CHARGE, REFUND_ID, NOW, key=key)
    assert done.refund == (posting.funds, evolve(USAGE, spent=0), posting.entry)
    assert done.meeting == evolve(MEETING, status=MeetingStatus.CANCELLED, credits_refunded=10)
    assert done.facts == ()


@pytest.mark.spec("3/cancel-running")
@pytest.mark.parametrize(("state", "at", "was_held"), [
    (IN_PROGRESS, NOW, False),
    (IN_PROGRESS, START, False),
    (OVER, START, False),
    *((state, at, True) for state in ProviderMeetingState for at in (NOW, START)),
])  # fmt: skip
def test_a_meeting_that_took_place_ends_without_a_refund(
    state: ProviderMeetingState, at: datetime, was_held: bool
) -> None:
    done = conclude(CANCELLING, state, CHARGE, FUNDS, USAGE, REFUND_ID, at, was_held=was_held)
    ended = evolve(MEETING, status=MeetingStatus.ENDED, credits_refunded=0)
    assert (done.meeting, done.refund, done.facts) == (ended, None, (MeetingEnded(ended),))


def test_the_answers_that_return_the_charge() -> None:
    assert {REMOVED, GONE} == REFUNDED


@given(st.sampled_from(MeetingStatus), st.sampled_from(ProviderMeetingState))
def test_only_a_meeting_that_is_being_cancelled_is_refunded(
    status: MeetingStatus, state: ProviderMeetingState
) -> None:
    meeting: Meeting = evolve(MEETING, status=status)
    is_open = status in (MeetingStatus.SCHEDULED, MeetingStatus.STARTED) and state is IN_PROGRESS
    if status is MeetingStatus.CANCELLING or is_open:
        conclude(meeting, state, CHARGE, FUNDS, USAGE, REFUND_ID, NOW)
    else:
        with pytest.raises(ValueError, match=f"^MeetingStatus {status} has no step"):
            conclude(meeting, state, CHARGE, FUNDS, USAGE, REFUND_ID, NOW)


def test_a_refund_needs_a_charge() -> None:
    with pytest.raises(ValueError, match=r"^a meeting without a charge is not refunded$"):
        conclude(CANCELLING, REMOVED, None, FUNDS, USAGE, REFUND_ID, NOW)
    assert conclude(CANCELLING, OVER, None, FUNDS, USAGE, REFUND_ID, START).refund is None


SOLD = evolve(MEETING, status=MeetingStatus.ENDED, recording_credits=4)


@pytest.mark.parametrize("key", [None, ChainKey.of(b"k" * 32)])
def test_a_recording_that_never_came_is_given_back_once(key: ChainKey | None) -> None:
    done = give_back_recording(SOLD, CHARGE, FUNDS, USAGE, REFUND_ID, START, key)
    posting = refund(FUNDS, CHARGE, REFUND_ID, START, key=key, amount=4)
    assert posting.entry is not None
    assert (posting.entry.transfer.amount, posting.funds.balance) == (4, FUNDS.balance + 4)
    assert done.refund == (posting.funds, evolve(USAGE, spent=6), posting.entry)
    assert done.meeting == evolve(SOLD, credits_refunded=4)
    again = give_back_recording(done.meeting, CHARGE, posting.funds, USAGE, REFUND_ID, START, key)
    assert (again.meeting, again.refund) == (done.meeting, None)


@pytest.mark.parametrize("sold", [MEETING, evolve(SOLD, credits_refunded=10)])
def test_nothing_is_given_back_of_what_cost_nothing_or_was_given_back(sold: Meeting) -> None:
    assert give_back_recording(sold, CHARGE, FUNDS, USAGE, REFUND_ID, START).refund is None


def test_a_meeting_that_ended_without_a_refund_gets_its_recording_back() -> None:
    done = give_back_recording(evolve(SOLD, credits_refunded=0), CHARGE, FUNDS, USAGE, REFUND_ID, START)
    assert done.meeting.credits_refunded == 4


def test_no_more_is_given_back_than_was_charged() -> None:
    refund(FUNDS, CHARGE, REFUND_ID, NOW, amount=10)
    with pytest.raises(ValueError, match=r"^a refund is not more than its charge$"):
        refund(FUNDS, CHARGE, REFUND_ID, NOW, amount=11)
