"""Erasure of an account: when it may begin, and what stands in place of what is erased."""

from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Unprocessable
from meetcore.domain.requests.accounts import check_email
from meetcore.domain.requests.erasures import Erasure, check_erasable, erased_email, retry_delay

ID = UUID("0190a1b2-0000-7000-8000-000000000000")
NOTHING_OPEN = Erasure(ID, 0, 0)


def test_an_account_with_nothing_under_way_can_be_erased() -> None:
    check_erasable(NOTHING_OPEN)


@pytest.mark.parametrize(
    ("erasure", "text", "details"),
    [
        (
            evolve(NOTHING_OPEN, open_meetings=2, holds=3),
            "Meetings of this account are still to take place. Cancel them first: their credits come back.",
            {"open_meetings": 2},
        ),
        (
            evolve(NOTHING_OPEN, holds=3),
            "Meetings or notes of this account are being made. Try again in a few minutes.",
            {"holds": 3},
        ),
    ],
)
def test_what_is_under_way_is_finished_first(erasure: Erasure, text: str, details: dict[str, int]) -> None:
    with pytest.raises(Unprocessable) as refusal:
        check_erasable(erasure)
    assert (refusal.value.message, refusal.value.details) == (text, details)


def test_an_erased_address_is_one_that_no_mail_reaches() -> None:
    assert check_email(erased_email(ID)) == f"erased-{ID}@erased.invalid"


@pytest.mark.parametrize(("waited_min", "delay_min"), [(0, 5), (20, 5), (24, 6), (480, 120), (90_000, 120)])
def test_an_erasure_that_waits_is_tried_less_and_less_often(waited_min: int, delay_min: int) -> None:
    assert retry_delay(timedelta(minutes=waited_min)) == timedelta(minutes=delay_min)
