"""What the adapters of payment gateways share: amounts, ids, and bodies without data of payers."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
import stripe
from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.gateway_calls import below, code_text, kept_body, payment_id, whole_units
from meetcore.adapters.midtrans import KEPT as MIDTRANS
from meetcore.adapters.midtrans import midtrans_notifications
from meetcore.adapters.stripe import stripe_notifications
from meetcore.adapters.stripe.gateway import KEPT_EVENT as STRIPE
from meetcore.adapters.xendit import KEPT as XENDIT
from meetcore.adapters.xendit import xendit_notifications
from meetcore.ports.payments import GatewayUnknown, Notification, NotificationInvalid, NotificationMalformed

NOW = datetime(2026, 12, 1, 2, 0, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(("amount", "decimals", "units"), [
    ("10000.00", 0, 10_000), ("10000", 0, 10_000), ("123.45", 2, 12_345), ("1E+3", 0, 1_000), ("0", 2, 0),
])  # fmt: skip
def test_amounts_in_units(amount: str, decimals: int, units: int) -> None:
    assert whole_units(Decimal(amount), decimals) == units


@pytest.mark.parametrize(("amount", "decimals"), [
    ("0.5", 0), ("123.456", 2), ("-1", 0), ("NaN", 0), ("Infinity", 0), ("1e16", 0), ("1e999999", 2),
    ("-0.001", 2),
])  # fmt: skip
def test_what_is_no_amount_is_never_rounded_to_one(amount: str, decimals: int) -> None:
    with pytest.raises(GatewayUnknown):
        whole_units(Decimal(amount), decimals)


@given(st.integers(0, 10**13), st.sampled_from([0, 2, 3]))
def test_every_amount_of_ours_survives_the_way_there_and_back(units: int, decimals: int) -> None:
    assert whole_units(Decimal(units).scaleb(-decimals), decimals) == units


def test_only_an_id_as_we_write_it_is_ours() -> None:
    one = uuid4()
    assert payment_id(str(one)) == one
    for other in (one.hex, str(one).upper(), f"{{{one}}}", f" {one}", one, None, 7, "", "ORDER-101"):
        assert payment_id(other) is None


@pytest.mark.parametrize(("code", "text"), [
    ("DATA_NOT_FOUND", ", DATA_NOT_FOUND"), (412, ", 412"), (None, ""), ("budi@example.com", ""),
    ("a sentence", ""), ("x" * 65, ""), ("", ""), ({"a": 1}, ""),
])  # fmt: skip
def test_a_code_is_a_word(code: object, text: str) -> None:
    assert code_text(code) == text


SECRET = "4811111111111114"


@pytest.mark.parametrize("fields", [MIDTRANS, XENDIT, STRIPE])
@given(JSON, st.text(max_size=8))
def test_a_field_that_is_not_listed_is_never_kept(fields: Mapping[str, Any], value: Any, name: str) -> None:
    hostile = {each: {SECRET: SECRET, "x": [SECRET]} for each in (*fields, name)}
    assert SECRET not in kept_body({**hostile, SECRET: value}, fields)
    assert SECRET not in kept_body([hostile], fields)
    kept_body(value, fields).encode()


def test_what_is_kept_is_bounded() -> None:
    kept = kept_body({"a": "x" * 10_000, "b": [{"a": 1}] * 10_000, "c": 1}, below("a", b=below("a")))
    assert json.loads(kept) == {"a": "x" * 300, "b": [{"a": 1}] * 20}


def _unsigned(body: bytes) -> dict[str, str]:
    return {}


def _of_xendit(body: bytes) -> dict[str, str]:
    return {"x-callback-token": "key"}


def _of_stripe(body: bytes) -> dict[str, str]:
    text = body.decode("utf-8", "replace")
    return {"stripe-signature": stripe.WebhookSignature.generate_signature_header(text, "key", 1796090400)}


@pytest.mark.parametrize(("parser", "headers"), [
    (midtrans_notifications("key"), _unsigned), (xendit_notifications("key"), _of_xendit),
    (stripe_notifications("key"), _of_stripe),
])  # fmt: skip
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_a_notification_or_refused(
    parser: Any, headers: Callable[[bytes], dict[str, str]], body: bytes
) -> None:
    for sent in (
        body,
        b'{"event": "x", "object": "event", "type": "x", "data": ' + body + b"}",
        b"[" * 100_000,
    ):
        try:
            said = parser(sent, headers(sent), NOW)
        except (NotificationInvalid, NotificationMalformed):
            continue
        assert said is None or isinstance(said, Notification)


@given(JSON)
def test_a_notification_with_anything_in_it_is_about_its_payment(value: Any) -> None:
    known = UUID(int=7)
    data = {"reference_id": str(known), "status": value, "amount": value, "customer": SECRET}
    body = json.dumps({"event": "x", "data": data}).encode()
    try:
        said = xendit_notifications("key")(body, _of_xendit(body), NOW)
    except NotificationMalformed:  # a text of half a character, or a number that JSON does not have
        return
    assert said is not None
    assert said.payment_id == known
    assert SECRET not in said.body
    said.body.encode()
