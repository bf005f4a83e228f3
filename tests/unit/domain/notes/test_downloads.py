"""Signed links, and the limits of streams."""

import hashlib
import hmac
from base64 import urlsafe_b64decode
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import assume, example, given
from hypothesis import strategies as st

from meetcore.domain.errors import TooManyDownloads
from meetcore.domain.notes.downloads import (
    LINK_LIFETIME,
    RETRY_AFTER_S,
    DownloadLimits,
    DownloadLink,
    is_over,
    is_signed_by,
    sign_link,
)

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
LINK = DownloadLink(UUID(int=1), UUID(int=2), 1, 1_800_000_000)

keys = st.binary(min_size=32, max_size=32)
links = st.builds(DownloadLink, st.uuids(), st.uuids(), st.integers(1, 2**32 - 1), st.integers(0, 2**63 - 1))


@given(keys, links)
@example(KEY, evolve(LINK, part=2**32 - 1, expires=2**63 - 1))
@example(KEY, evolve(LINK, expires=0))
def test_a_signed_link_is_accepted(key: bytes, link: DownloadLink):
    assert is_signed_by([key], link, sign_link(key, link))


@given(keys, keys, links)
def test_another_key_signs_otherwise(key: bytes, other: bytes, link: DownloadLink):
    assume(key != other)
    assert not is_signed_by([other], link, sign_link(key, link))


@given(keys, links, links)
def test_a_signature_is_good_for_one_link_only(key: bytes, link: DownloadLink, other: DownloadLink):
    assume(link != other)
    assert not is_signed_by([key], other, sign_link(key, link))


@given(st.text(max_size=60))
def test_arbitrary_text_is_no_valid_signature(signature: str):
    assume(signature != sign_link(KEY, LINK))
    assert not is_signed_by([KEY], LINK, signature)


@given(st.integers(0, 42), st.sampled_from("AZaz09-_=.é"))
def test_one_wrong_character_is_enough(place: int, character: str):
    signature = sign_link(KEY, LINK)
    assume(signature[place] != character)
    changed = signature[:place] + character + signature[place + 1 :]
    # The last character holds four bits of the digest and two of nothing: another spelling is another text.
    assert not is_signed_by([KEY], LINK, changed)


def test_a_longer_or_shorter_signature_is_refused():
    signature = sign_link(KEY, LINK)
    for wrong in ("", signature[:-1], signature + "A", signature + "=", signature.lower(), "\ud800"):
        assert not is_signed_by([KEY], LINK, wrong)


def test_both_keys_are_accepted_during_rotation_and_without_keys_nothing_is():
    signature = sign_link(OTHER_KEY, LINK)
    assert is_signed_by([KEY, OTHER_KEY], LINK, signature)
    assert is_signed_by([OTHER_KEY, KEY], LINK, signature)
    assert not is_signed_by([], LINK, signature)


def test_a_signature_is_the_mac_of_the_label_and_every_value_at_its_width():
    message = (
        b"meetcore recording download v1\x00"
        + LINK.account_id.bytes
        + LINK.recording_id.bytes
        + (1).to_bytes(4, "big")
        + (1_800_000_000).to_bytes(8, "big")
    )
    signature = sign_link(KEY, LINK)
    assert len(signature) == 43
    assert urlsafe_b64decode(signature + "=") == hmac.new(KEY, message, hashlib.sha256).digest()


def test_a_link_expires_at_its_second_and_not_before():
    assert not is_over(LINK, LINK.expires - 0.001)
    assert is_over(LINK, LINK.expires)
    assert is_over(LINK, LINK.expires + 1)
    assert timedelta(minutes=15) == LINK_LIFETIME


@pytest.mark.parametrize(
    "wrong", [{"part": 0}, {"part": -1}, {"part": 2**32}, {"expires": -1}, {"expires": 2**63}]
)
def test_an_out_of_range_link_is_refused(wrong: dict[str, Any]):
    with pytest.raises(ValueError, match="must be"):
        evolve(LINK, **wrong)


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
