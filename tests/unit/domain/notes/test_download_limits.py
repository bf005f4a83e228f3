"""How many downloads run at once, and which readers are too slow."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meetcore.domain.errors import RateLimited, TooManyDownloads
from meetcore.domain.notes.download_limits import RETRY_AFTER_S, DownloadLimits

LIMITS = DownloadLimits()
COUNTS = st.integers(0, 40)


@pytest.mark.spec("7/429")
@given(COUNTS, COUNTS)
@example(3, 19)
@example(4, 0)
@example(0, 20)
def test_four_streams_of_a_link_and_twenty_of_an_account(of_link: int, of_account: int) -> None:
    if of_link < 4 and of_account < 20:
        LIMITS.check_streams(of_link, of_account)
        return
    with pytest.raises(TooManyDownloads) as refused:
        LIMITS.check_streams(of_link, of_account)
    limit = 4 if of_link >= 4 else 20
    assert refused.value.details == {"limit": limit, "window_seconds": 1}
    assert refused.value.retry_after_s == RETRY_AFTER_S
    assert refused.value.code == "rate_limited"
    of_what = "link" if limit == 4 else "account"
    assert refused.value.message == (
        f"{limit} downloads of this {of_what} run already, which is the most. "
        "Wait until one is over and try again."
    )


def test_requests_beyond_a_quota_get_the_minute_window() -> None:
    assert "in this minute" in RateLimited(5, 60, 3).message


@given(st.integers(0, 10**10), st.floats(0, 59.99))
def test_no_reader_is_cut_off_before_a_whole_window_of_waiting(taken_bytes: int, waited_s: float) -> None:
    assert not LIMITS.is_too_slow(taken_bytes, waited_s)


@given(st.floats(60, 10_000))
def test_16_kb_a_second_is_just_enough(waited_s: float) -> None:
    enough = 16 * 1024 * waited_s
    assert not LIMITS.is_too_slow(int(enough) + 1, waited_s)
    assert LIMITS.is_too_slow(int(enough) - 1, waited_s)


def test_exactly_16_kb_a_second_is_enough() -> None:
    assert not LIMITS.is_too_slow(60 * 16 * 1024, 60.0)
