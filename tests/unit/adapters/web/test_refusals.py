"""Refusals of the domain in the language of the page."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from markupsafe import escape

import meetcore
from meetcore.adapters.web import refusals
from meetcore.adapters.web.forms import explain
from meetcore.adapters.web.templates import environment
from meetcore.adapters.web.visit import Look
from meetcore.domain.errors import NoHostFree, ServiceUnavailable, UpstreamError, refusal_of
from meetcore.domain.members.members import InvitationCounts, Membership, check_invitations, check_owner_stays
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sign_in import check_full_name
from meetcore.domain.money import ledger
from meetcore.domain.notes.notes import Language, NoteFault, describe
from meetcore.domain.requests import keys
from meetcore.domain.webhooks import endpoints, urls

OWNER = Membership(UUID(int=1), UUID(int=2), Role.OWNER, datetime(2026, 12, 1, tzinfo=UTC))
_TOPPED_UP = ledger.top_up(
    ledger.open_account(OWNER.account_id), UUID(int=3), "INV-7", 100, OWNER.created_at
).entry  # fmt: skip
assert _TOPPED_UP is not None
TOP_UP = _TOPPED_UP.transfer
VALUE = re.compile(r"%\(\w+\)s")


def look(language: Language) -> Look:
    return Look(language, "/dashboard", "/dashboard", "token")


@pytest.mark.parametrize(
    ("check", "english", "indonesian"),
    [
        (
            lambda: check_owner_stays([OWNER], OWNER.user_id, None),
            "An account needs an owner. Make another member an owner first.",
            "Akun memerlukan pemilik. Jadikan anggota lain pemilik terlebih dahulu.",
        ),
        (
            lambda: check_invitations(InvitationCounts(50, 0, had_credits=True)),
            "50 invitations are pending. Take one back first.",
            "50 undangan belum dijawab. Tarik kembali salah satunya dahulu.",
        ),
        (
            lambda: check_full_name(""),
            "Write a name of 1 to 120 characters.",
            "Tulis nama 1 sampai 120 karakter.",
        ),
        (
            lambda: keys.check_room(keys.KEYS_PER_ACCOUNT),
            f"The account has {keys.KEYS_PER_ACCOUNT} working API keys and connected programs. Revoke one "
            "first.",
            f"Akun memiliki {keys.KEYS_PER_ACCOUNT} kunci API dan program terhubung yang berlaku. Cabut "
            "salah satunya dahulu.",
        ),
        (
            lambda: ledger.top_up(
                ledger.open_account(OWNER.account_id), UUID(int=3), "INV-7", 5, OWNER.created_at, TOP_UP
            ),
            "The reference 'INV-7' belongs to a top-up of 100 credits.",
            "Referensi 'INV-7' sudah dipakai untuk isi ulang sebesar 100 kredit.",
        ),
        (
            lambda: urls.parse_webhook_url("http://example.com:80/"),
            "must begin with https://; must use port 443",
            "harus diawali https://; harus memakai port 443",
        ),
        (
            lambda: endpoints.check_fields(("meeting.created",), "x" * 201),  # type: ignore[arg-type]
            "must be at most 200 characters long",
            "paling panjang 200 karakter",
        ),
    ],
)  # fmt: skip
def test_a_refusal_is_in_the_language_of_the_page(
    check: Callable[[], object], english: str, indonesian: str
) -> None:
    refusal = refusal_of(check)
    assert refusal is not None
    assert list(explain(look(Language.ENGLISH), refusal).values()) == [english]
    assert list(explain(look(Language.INDONESIAN), refusal).values()) == [indonesian]


def test_a_change_under_way_is_not_called_a_meeting_that_cannot_be_made() -> None:
    for message in (
        "The meeting is being cancelled by another request.",
        "The first request is still in progress. Try again.",  # which may still charge
    ):
        assert explain(look(Language.ENGLISH), ServiceUnavailable(message, 1)) == {"form": message}
    message = "The video provider did not end the meeting. Nothing was refunded; try again."
    assert explain(look(Language.INDONESIAN), UpstreamError(message)) == {
        "form": "Penyedia video tidak mengakhiri rapat. Tidak ada kredit yang dikembalikan; coba lagi."
    }
    [full] = explain(look(Language.ENGLISH), NoHostFree(60)).values()
    assert "Choose another time" in full


def test_an_unknown_message_stays_as_it_is() -> None:
    assert refusals.translate_refusal(Language.INDONESIAN, "100% new") == "100% new"


@pytest.mark.parametrize("fault", NoteFault)
def test_why_there_are_no_notes_is_in_the_language_of_the_page(fault: NoteFault) -> None:
    message = describe(fault)
    assert refusals.translate_refusal(Language.ENGLISH, message) == message
    assert refusals.translate_refusal(Language.INDONESIAN, message) != message
    shown = environment(Language.INDONESIAN).from_string("{{ message|refusal }}").render(message=message)
    assert shown == str(escape(refusals.translate_refusal(Language.INDONESIAN, message)))


def test_each_text_is_a_message_of_the_service() -> None:
    """A text whose message was reworded would translate nothing."""
    root = Path(meetcore.__file__).parent
    said = [
        re.compile(_pattern(node))
        for folder in ("domain", "usecases", "adapters/postgres", "adapters/webhook_sender")
        for path in (root / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if len(_pattern(node)) > len(".+ .+ .+")
    ]
    texts = [VALUE.sub("0", text) for text in refusals.TEXTS]
    assert [text for text in texts if not any(each.fullmatch(text) for each in said)] == []


def _pattern(node: ast.AST) -> str:
    """Return the pattern of a text in the code, empty for another expression."""
    if isinstance(node, ast.Constant):
        return re.escape(node.value) if isinstance(node.value, str) else ""
    values = node.values if isinstance(node, ast.JoinedStr) else []
    return "".join(_pattern(part) or ".+" for part in values)
