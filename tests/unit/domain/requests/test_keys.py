"""API keys: their form, when one is valid, what it may do (spec 5)."""

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError
from hypothesis import assume, example, given
from hypothesis import strategies as st

from meetcore.domain.errors import Conflict, InsufficientScope, InvalidApiKey, Unprocessable
from meetcore.domain.requests import keys
from meetcore.testing.strategies.requests import api_keys, key_prefixes, key_texts

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
TICK = timedelta(microseconds=1)
ID = UUID("01930000-0000-7000-8000-000000000001")
KEY = keys.ApiKey(
    ID, ID, (keys.Scope.MEETINGS_READ, keys.Scope.WEBHOOKS_WRITE), None, NOW - timedelta(days=1)
)
MINTED = keys.mint("mk", bytes(range(32)))

BASE64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
prefixes = key_prefixes()
randoms = st.binary(min_size=keys.SECRET_BYTES, max_size=keys.SECRET_BYTES)
scopes = st.sets(st.sampled_from(keys.Scope)).map(tuple)


def refusal(header: str | None, prefix: str = "mk") -> str:
    with pytest.raises(InvalidApiKey) as refused:
        keys.read_bearer(header, prefix)
    assert refused.value.details == {}
    return refused.value.message


@pytest.mark.spec("5/2")
@given(prefixes, randoms)
@example("m", bytes(32))
@example("mk2", bytes(32))
@example("m" * 16, bytes(32))
def test_a_key_is_a_prefix_and_43_characters_and_reads_back(prefix: str, random: bytes) -> None:
    key = keys.mint(prefix, random)
    lead, secret = key[: -keys.SECRET_LENGTH], key[-keys.SECRET_LENGTH :]
    assert lead == f"{prefix}_live_"
    assert set(secret) <= set(BASE64URL)
    assert base64.urlsafe_b64decode(secret + "=") == random
    assert keys.read_bearer(f"Bearer {key}", prefix) == key


@given(prefixes, st.binary(max_size=64))
def test_minting_takes_32_bytes_and_no_other_number(prefix: str, random: bytes) -> None:
    assume(len(random) != keys.SECRET_BYTES)
    with pytest.raises(ValueError, match="32 random bytes"):
        keys.mint(prefix, random)


@pytest.mark.parametrize("prefix", ["", "Mk", "1mk", "mk_", "m k", "mk\n", "m-k", "é", "m" * 17])
def test_a_prefix_is_short_lower_case_and_alphanumeric(prefix: str) -> None:
    assert not keys.is_prefix(prefix)
    with pytest.raises(ValueError, match="prefix"):
        keys.mint(prefix, bytes(32))


def test_only_the_digest_of_a_key_is_kept() -> None:
    assert keys.digest(MINTED) == hashlib.sha256(MINTED.encode()).digest()
    assert not {"key", "secret", "text"} & {field.name for field in keys.ApiKey.__attrs_attrs__}


@pytest.mark.spec("5/1")
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_read_in_any_case_and_spaces_round_the_key_are_dropped(scheme: str) -> None:
    assert keys.read_bearer(f"{scheme} {MINTED}", "mk") == MINTED
    assert keys.read_bearer(f"{scheme}   {MINTED} ", "mk") == MINTED


@pytest.mark.spec("5/1")
@pytest.mark.parametrize("header", [None, ""])
def test_a_missing_header_is_reported_as_no_key(header: str | None) -> None:
    assert refusal(header).startswith("No API key.")


@pytest.mark.spec("5/1")
@pytest.mark.parametrize(
    "header", [MINTED, "Bearer", "Bearer ", "Bearer   ", f"Basic {MINTED}", f"Bearer\t{MINTED}", f" {MINTED}"]
)
def test_another_scheme_is_reported(header: str) -> None:
    assert refusal(header) == "The Authorization header must read: Bearer <API_KEY>."


@pytest.mark.parametrize("key", ["mk", "mk_test_" + "a" * 43, "MK_live_" + "a" * 43, "a" * 43])
def test_another_prefix_is_reported(key: str) -> None:
    assert refusal(f"Bearer {key}") == "An API key begins with mk_live_."


@pytest.mark.spec("5/2")
@given(st.text(BASE64URL, max_size=100))
def test_a_key_of_another_length_is_reported_as_a_copying_mistake(secret: str) -> None:
    assume(len(secret) != keys.SECRET_LENGTH)
    assert refusal(f"Bearer mk_live_{secret}") == (
        f"An API key has 43 characters after mk_live_; this one has {len(secret)}. Was it copied whole?"
    )


@given(st.text(BASE64URL, min_size=42, max_size=42), st.characters(exclude_characters=BASE64URL + " "))
def test_a_key_with_a_foreign_character_is_simply_wrong(rest: str, foreign: str) -> None:
    message = refusal(f"Bearer mk_live_{rest[:20]}{foreign}{rest[20:]}")
    assert message.startswith("The API key is wrong, revoked or expired.")
    assert rest not in message


@pytest.mark.spec("5/3", "4.2/1")
@pytest.mark.parametrize(("key", "is_valid"), [
    (None, False),
    (KEY, True),
    (evolve(KEY, revoked_at=NOW - TICK), False),
    (evolve(KEY, revoked_at=NOW), False),
    (evolve(KEY, revoked_at=NOW + TICK), False),  # by a host whose clock is ahead
    (evolve(KEY, expires_at=NOW - TICK), False),
    (evolve(KEY, expires_at=NOW), False),
    (evolve(KEY, expires_at=NOW + TICK), True),
    (evolve(KEY, expires_at=NOW + TICK, revoked_at=NOW), False),
    (evolve(KEY, expires_at=NOW, revoked_at=NOW + TICK), False),
    (evolve(KEY, expires_at=NOW + TICK, revoked_at=NOW + TICK), False),
])  # fmt: skip
def test_a_key_is_valid_until_it_is_revoked_or_the_instant_it_expires(
    key: keys.ApiKey | None, is_valid: bool
) -> None:
    if is_valid:
        assert keys.check_usable(key, MINTED, NOW) is key
    else:
        with pytest.raises(InvalidApiKey):
            keys.check_usable(key, MINTED, NOW)


@pytest.mark.parametrize("space", ["\t", "\u00a0", "\r", "\n"])
def test_no_white_space_but_spaces_is_dropped(space: str) -> None:
    assert "this one has 44" in refusal(f"Bearer {MINTED}{space}")
    assert refusal(f"Bearer {space}{MINTED}") == "An API key begins with mk_live_."


@pytest.mark.spec("5/2")
@given(prefixes.flatmap(lambda prefix: st.tuples(st.just(prefix), key_texts(prefix))), prefixes)
def test_a_key_of_one_service_is_invalid_at_another(key: tuple[str, str], other: str) -> None:
    prefix, text = key
    assert keys.read_bearer(f"Bearer {text}", prefix) == text
    assume(other != prefix)
    assert refusal(f"Bearer {text}", other) == f"An API key begins with {other}_live_."


@pytest.mark.spec("5/3")
def test_unknown_malformed_revoked_and_expired_are_answered_alike() -> None:
    messages = {refusal("Bearer mk_live_" + "!" * 43)}
    for key in (None, evolve(KEY, revoked_at=NOW), evolve(KEY, expires_at=NOW)):
        with pytest.raises(InvalidApiKey) as refused:
            keys.check_usable(key, MINTED, NOW)
        messages.add(refused.value.message)
    assert len(messages) == 1


@pytest.mark.spec("5/5")
@given(scopes, scopes)
def test_a_key_needs_one_of_the_scopes_and_an_empty_set_asks_for_none(
    held: tuple[keys.Scope, ...], wanted: tuple[keys.Scope, ...]
) -> None:
    key = evolve(KEY, scopes=held)
    if not wanted or set(held) & set(wanted):
        keys.require_scope(key, wanted)
    else:
        with pytest.raises(InsufficientScope) as refused:
            keys.require_scope(key, iter(wanted))
        assert refused.value.details == {"required": [scope.value for scope in wanted]}


@pytest.mark.spec("5/4")
def test_the_scopes_of_a_key_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        KEY.scopes = tuple(keys.Scope)  # type: ignore[misc]
    assert isinstance(KEY.scopes, tuple)


def test_the_scopes_are_those_of_the_contract() -> None:
    assert {scope.value for scope in keys.Scope} == {
        "meetings:read", "meetings:write", "notulen:read", "notulen:write", "recordings:read",
        "recordings:write", "credits:read", "credits:write", "webhooks:read", "webhooks:write",
    }  # fmt: skip


def test_a_new_key_expires_in_the_future_or_never() -> None:
    assert keys.check_expiry(None, NOW) is None
    assert keys.check_expiry(NOW + TICK, NOW) == NOW + TICK
    for past in (NOW, NOW - TICK):
        with pytest.raises(keys.InvalidExpiry) as refusal:
            keys.check_expiry(past, NOW)
        assert str(refusal.value) == (
            "a key must expire in the future; leave the time out for one that never does"
        )


def test_an_account_has_room_for_so_many_working_keys() -> None:
    keys.check_room(199)
    with pytest.raises(Unprocessable) as refusal:
        keys.check_room(200)
    assert str(refusal.value) == (
        "The account has 200 working API keys and connected programs. Revoke one first."
    )


def test_what_members_do_by_hand_is_paid_with_every_scope_and_no_cap() -> None:
    key = keys.dashboard_key(ID, NOW)
    assert (key.id, key.account_id, key.daily_cap, key.created_at) == (ID, ID, None, NOW)
    keys.require_scope(key, ())
    for scope in keys.Scope:
        keys.require_scope(key, (scope,))
    assert keys.check_usable(key, MINTED, NOW + timedelta(days=4_000)) == key


@pytest.mark.parametrize("name", [keys.DEFAULT_NAME, "k", "Kasir 2 (cabang Bandung): é", "n" * keys.MAX_NAME])
def test_a_name_is_returned_as_it_is(name: str) -> None:
    assert keys.check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "n" * (keys.MAX_NAME + 1), "a\nb", "a\tb", "a\x00", "a\u2028b", "a\u202eb", "\ud800"]
)
def test_a_name_is_a_line_of_1_to_60_characters(name: str) -> None:
    with pytest.raises(keys.InvalidName, match="1 to 60 characters of one line"):
        keys.check_name(name)


@given(prefixes, randoms)
def test_a_key_is_shown_by_its_prefix_and_its_last_four_characters(prefix: str, random: bytes) -> None:
    text = keys.mint(prefix, random)
    shown = keys.masked(prefix, evolve(KEY, last_four=keys.last_four(text)))
    assert shown == f"{prefix}_live_…{text[-4:]}"
    assert shown.replace("…", text[len(prefix) + 6 : -4]) == text


def test_a_key_whose_end_was_not_kept_is_shown_by_its_prefix() -> None:
    assert keys.masked("mk", KEY) == "mk_live_…"


@pytest.mark.parametrize("at", [NOW, NOW + TICK, NOW + timedelta(seconds=59, microseconds=999_999)])
def test_a_use_is_known_by_its_minute(at: datetime) -> None:
    assert keys.minute_of_use(at) == NOW


NEW_ID, MEMBER = UUID(int=2), UUID(int=3)
HOUR = timedelta(hours=1)


@pytest.mark.spec("5/7")
@given(api_keys(NOW), st.integers(0, keys.MAX_OVERLAP_H))
def test_a_rolled_key_is_a_new_one_for_the_same_and_the_old_one_ends(
    key: keys.ApiKey, overlap_h: int
) -> None:
    rolled = keys.roll(key, overlap_h, NEW_ID, MINTED, NOW, MEMBER)
    assert rolled.new == keys.ApiKey(
        NEW_ID, key.account_id, key.scopes, key.daily_cap, NOW, key.expires_at, None, key.name, MINTED[-4:],
        MEMBER, None, key.id,
    )  # fmt: skip
    assert keys.check_usable(rolled.new, MINTED, NOW) == rolled.new
    end = NOW + overlap_h * HOUR
    if overlap_h:
        assert keys.check_usable(rolled.old, MINTED, NOW) == rolled.old
        assert rolled.old.expires_at == (end if key.expires_at is None else min(end, key.expires_at))
    for later in (end, end + TICK):
        with pytest.raises(InvalidApiKey):
            keys.check_usable(rolled.old, MINTED, later)
    assert evolve(rolled.old, expires_at=key.expires_at, revoked_at=None) == key


def test_a_key_that_is_rolled_without_overlap_is_revoked_at_once() -> None:
    assert keys.roll(KEY, 0, NEW_ID, MINTED, NOW).old == evolve(KEY, revoked_at=NOW)


def test_keys_that_are_rolled_one_after_another_share_the_cap_of_the_first() -> None:
    used = evolve(KEY, name="Kasir", last_used_at=NOW, created_by=MEMBER)
    second = keys.roll(used, 1, NEW_ID, MINTED, NOW).new
    third = keys.roll(second, 1, UUID(int=4), MINTED, NOW).new
    assert [key.cap_key_id for key in (used, second, third)] == [KEY.id] * 3
    assert (third.name, third.last_used_at, third.created_by) == ("Kasir", None, None)


@given(api_keys(NOW, is_usable=False))
def test_only_a_key_that_can_be_used_is_rolled(key: keys.ApiKey) -> None:
    with pytest.raises(Conflict) as refused:
        keys.roll(key, 1, NEW_ID, MINTED, NOW)
    assert refused.value.details == {"id": str(key.id)}
    assert refused.value.message == "The key is revoked or expired. Make a new one."


@pytest.mark.parametrize("overlap_h", [-1, keys.MAX_OVERLAP_H + 1, 1.0, True, None])
def test_an_overlap_is_up_to_seven_days_of_whole_hours(overlap_h: int) -> None:
    assert keys.MAX_OVERLAP_H == 7 * 24
    for check in (keys.check_overlap, lambda hours: keys.roll(KEY, hours, NEW_ID, MINTED, NOW)):
        with pytest.raises(keys.InvalidOverlap, match="0 to 168 whole hours"):
            check(overlap_h)
    assert [keys.check_overlap(hours) for hours in (0, keys.MAX_OVERLAP_H)] == [0, keys.MAX_OVERLAP_H]


def test_a_key_of_the_playground_is_known_by_name_member_and_short_life():
    member, end = UUID(int=7), NOW + keys.PLAYGROUND_LASTS
    key = evolve(KEY, name=keys.PLAYGROUND_NAME, created_by=member, created_at=NOW, expires_at=end)
    assert keys.is_playground_key(key, member, NOW)
    assert keys.is_playground_key(evolve(key, expires_at=end - TICK), member, NOW)
    assert keys.is_playground_key(evolve(key, created_by=None), None, NOW)
    for other in (
        evolve(key, name="CI"), evolve(key, expires_at=None), evolve(key, expires_at=end + TICK),
        evolve(key, created_by=None), evolve(key, revoked_at=NOW),
    ):  # fmt: skip
        assert not keys.is_playground_key(other, member, NOW)
    assert not keys.is_playground_key(key, UUID(int=8), NOW)
    assert keys.is_playground_key(key, member, end - TICK)
    assert not keys.is_playground_key(key, member, end)


def test_a_token_of_a_grant_is_read_where_tokens_are_taken_alone() -> None:
    token = keys.mint("mk", bytes(32), keys.ACCESS_TOKEN)
    assert token.startswith("mk_oauth_")
    assert keys.read_bearer(f"Bearer {token}", "mk", takes_tokens=True) == token
    assert keys.read_bearer(f"Bearer {MINTED}", "mk", takes_tokens=True) == MINTED
    with pytest.raises(InvalidApiKey, match="begins with mk_live_"):
        keys.read_bearer(f"Bearer {token}", "mk")
    with pytest.raises(InvalidApiKey, match="43 characters after mk_oauth_"):
        keys.read_bearer(f"Bearer {token}x", "mk", takes_tokens=True)
    with pytest.raises(InvalidApiKey, match="begins with mk_live_"):
        keys.read_bearer(f"Bearer {keys.mint('mk', bytes(32), keys.REFRESH_TOKEN)}", "mk", takes_tokens=True)


@pytest.mark.parametrize(("text", "message"), [
    (MINTED, "The API key is wrong, revoked or expired. Send it as: Authorization: Bearer <API_KEY>."),
    ("mk_oauth_" + "a" * 43, "The access was revoked or has ended. Connect the program again."),
    (
        "oauth_live__oauth_" + "a" * 36,
        "The API key is wrong, revoked or expired. Send it as: Authorization: Bearer <API_KEY>.",
    ),
])  # fmt: skip
def test_a_refusal_says_how_to_get_in_again(text: str, message: str) -> None:
    with pytest.raises(InvalidApiKey) as refused:
        keys.check_usable(None, text, NOW)
    assert refused.value.message == message


def test_a_grant_ends_with_its_access_token_and_is_not_rolled() -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    end = now + timedelta(hours=1)
    grant = keys.ApiKey(UUID(int=1), UUID(int=2), (), None, now, client_id="c", token_expires_at=end)
    assert keys.check_usable(grant, MINTED, now) is grant
    with pytest.raises(InvalidApiKey):
        keys.check_usable(grant, MINTED, end)
    assert keys.is_usable(grant, end)
    assert keys.masked("mk", grant) == "mk_oauth_…"
    message = r"^A grant has no text to replace\. Revoke it, and connect the program again\.$"
    with pytest.raises(Conflict, match=message) as refused:
        keys.roll(grant, 0, UUID(int=3), MINTED, now)
    assert refused.value.details == {"id": str(grant.id)}
