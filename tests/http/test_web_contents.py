"""What others write is shown as text on every page (stored XSS), and no page shows a secret again."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from uuid import UUID, uuid4

import httpx
import pytest
from attrs import evolve

from meetcore.adapters.postgres.notes.rows import note_parameters
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.web.console.routes import PAGES as CONSOLE_PAGES
from meetcore.adapters.web.routes import PAGES
from meetcore.app import Service
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.notes.notes import ActionItem, Decision, NoteDraft
from meetcore.domain.notes.transcripts import Utterance
from meetcore.domain.requests.request_log import LoggedRequest
from tests.support.api_harness import ALL_SCOPES, BASE_URL, ApiHarness, Customer
from tests.support.oauth_requests import a_request_for_a_grant
from tests.support.pages import Browser
from tests.support.paid_payments import a_paid_payment
from tests.support.sandbox_recordings import a_recording, note_in
from tests.support.visitors import Visitors

KEY, SECRET = re.compile(r"mk_live_[\w-]{43}"), re.compile(r"whsec_[\w+/=-]{20,}")

FIELDS = (
    "account name", "member name", "meeting title", "meeting description", "note summary",
    "note decision", "note quote", "note task", "note owner", "note due", "note topic", "note utterance",
    "note speaker", "note error", "key name", "webhook description", "response excerpt",
    "attempt error", "browser", "reason", "reference", "host", "refusal message",
    "gateway message", "program",
)  # fmt: skip
"""What a customer, a participant, a receiver of webhooks, a browser, a provider, a program or an operator
writes."""


def hostile(name: str) -> str:
    """A text that would become an element, leave an attribute or end a script, with a mark to find it by."""
    return f"</script>{mark(name)}\"'><xss-x onload=alert(1)>{{{{7*7}}}}&lt;"


def mark(name: str) -> str:
    return f"mark{FIELDS.index(name)}q"


class _Page(HTMLParser):
    """Collects what an attacker would need, and the texts that are shown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self.shown: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        scripted = [name for name in given if name.startswith("on") or name == "style"]
        targets = [given.get(name) or "" for name in ("href", "src", "action", "formaction")]
        is_foreign = [
            each for each in targets if re.match(r"\s*(javascript|data|vbscript):", each, re.IGNORECASE)
        ]
        if tag.startswith("xss") or scripted or is_foreign or (tag == "script" and not given.get("src")):
            self.wrong.append(self.get_starttag_text() or tag)
        self.shown.extend(value or "" for value in given.values())

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


async def write_everywhere(customer: Customer, member: Browser, operator: Browser) -> dict[str, str]:
    """Write a hostile text into every field; return the ids of what has them, by the part of the path."""
    account = customer.account_id
    fields = {"title": hostile("meeting title"), "description": hostile("meeting description")}
    recording = await a_recording(customer, **fields)
    note_id = await _write_notes(customer, recording["id"])
    webhook = await customer.make_webhook(description=hostile("webhook description"))
    await customer.post(f"/webhooks/{webhook['id']}/test", {})
    [delivery] = await customer.query("SELECT id FROM deliveries WHERE endpoint_id = %s", webhook["id"])
    await customer.query(
        "INSERT INTO delivery_attempts VALUES (%s, %s, 99, now(), 5, 500, %s, %s, NULL)",
        account, delivery["id"], hostile("attempt error"), hostile("response excerpt"),
    )  # fmt: skip
    refused = LoggedRequest(
        uuid4(), account, customer.key.key.id, datetime.now(UTC), "POST", "/meetings", 422, 1,
        "unprocessable_entity", message=hostile("refusal message"),
    )  # fmt: skip
    await customer.application.ports.request_log.save([refused])
    await customer.query("UPDATE accounts SET full_name = %s WHERE id = %s", hostile("account name"), account)
    await customer.query(
        "UPDATE users SET full_name = %s WHERE id = %s", hostile("member name"), customer.user_id
    )
    await member.post(
        "/dashboard/keys", name=hostile("key name")[:60], form_key="k", **{"scope:meetings:read": "on"}
    )
    moved = {"amount": "5", "reason": hostile("reason"), "reference": hostile("reference"), "form_key": "m"}
    answer = await operator.post(f"/console/accounts/{account}/top-up", **moved)
    assert answer.status_code == 303, answer.text
    payment = (await customer.post("/credits/topups", {"package_id": "credits-500"})).json()
    await customer.query(
        "INSERT INTO payment_messages VALUES (%s, 99, now(), 'look', %s)",
        payment["id"], hostile("gateway message"),
    )  # fmt: skip
    return {
        "payments": payment["id"],
        "accounts": str(account), "meetings": recording["meeting_id"], "notes": note_id,
        "webhooks": webhook["id"], "deliveries": str(delivery["id"]),
        "requests": str(refused.id), "credits": await a_paid_payment(customer),
        "statements": f"{datetime.now(WIB):%Y-%m}", "playground": "get_me",
        "connect": await a_request_for_a_grant(customer.application, hostile("program")[:60]),
    }  # fmt: skip


async def _write_notes(customer: Customer, recording_id: str) -> str:
    """One completed note of hostile texts, as participants speak them, and one that failed."""
    made = [
        (await customer.post("/notes", {"recording_id": recording_id, "language": language})).json()["id"]
        for language in ("en", "id")
    ]
    for each in made:
        await note_in(customer, each, "completed")
    queries, store = customer.application.ports.queries, customer.application.ports.store
    note = await queries.find_note(customer.account_id, UUID(made[0]))
    draft = NoteDraft(
        hostile("note summary"),
        (Decision(hostile("note decision"), hostile("note quote"), 1.0),),
        (ActionItem(hostile("note task"), "", 1.0, hostile("note owner"), hostile("note due")),),
        (hostile("note topic"),),
    )
    spoken = Utterance(0.0, 1.0, hostile("note utterance"), hostile("note speaker"))
    assert isinstance(store, PostgresStore)
    assert note is not None
    sealed = note_parameters(evolve(note, draft=draft, transcript=(spoken,)), store._cipher)["note_content"]
    await customer.query("UPDATE notes SET content = %s WHERE id = %s", sealed, made[0])
    await customer.query(
        "UPDATE notes SET status = 'failed', error = %s, content = NULL WHERE id = %s",
        hostile("note error"),
        made[1],
    )
    return str(made[0])


def paths(ids: dict[str, str]) -> list[str]:
    """Every page and file of both areas."""
    listed = [(page.method, page.path) for page in PAGES]
    listed += [(page.method, page.path) for page in CONSOLE_PAGES]
    return [
        re.sub(r"/([a-z-]+)/\{\w+\}", lambda found: f"/{found[1]}/{ids[found[1]]}", path)
        for method, path in listed
        if method == "GET"
    ]


Reading = tuple[dict[str, httpx.Response], set[str]]
"""Every page and file of both areas after hostile texts and secrets were written, and those secrets."""


@pytest.fixture(scope="module")
async def reading(harness: ApiHarness, service: Service) -> Reading:
    await harness.administration.hosts.add(hostile("host"), 1)
    customer, visitors = await harness.customer(scopes=ALL_SCOPES), Visitors(service, harness.application)
    member, operator = await visitors.member(customer.account_id), await visitors.operator()
    ids = await write_everywhere(customer, member, operator)
    secrets = await make_secrets(customer, member, ids["webhooks"])
    link = await visitors.application.access.portal_links.for_member(customer.account_id, customer.email)
    path, other = link.url.removeprefix(BASE_URL), visitors.stranger()
    other.http.headers["User-Agent"] = hostile("browser")
    assert (await other.post(path, page=path)).status_code == 303
    answers = {}
    for path in paths(ids):
        answers[path] = await (operator if path.startswith("/console") else member).get(path)
        is_month = "/statements/" in path  # nothing is stated before it is over
        assert answers[path].status_code in ((404,) if is_month else (200, 303)), path
    secrets |= {value for each in (member, operator) for value in each.http.cookies.values()}
    for each in visitors.opened:
        await each.aclose()
    return answers, secrets


async def make_secrets(customer: Customer, member: Browser, webhook_id: str) -> set[str]:
    """Make, roll, show and rotate secrets: each is shown once, by the answer to its form."""
    made = await member.post("/dashboard/keys", name="CI", form_key="s", **{"scope:meetings:read": "on"})
    [key] = await customer.query(
        "SELECT id FROM api_keys WHERE name = 'CI' AND account_id = %s", customer.account_id
    )
    rolled = await member.post(f"/dashboard/keys/{key['id']}/roll", overlap_h="24", form_key="r")
    webhook = f"/dashboard/webhooks/{webhook_id}"
    shown = await member.post(f"{webhook}/secret", form_key="w")
    rotated = await member.post(f"{webhook}/rotate", form_key="x", confirmed="yes")
    secrets = {customer.key.text}
    for answer, form in ((made, KEY), (rolled, KEY), (shown, SECRET), (rotated, SECRET)):
        [secret] = set(form.findall(answer.text))
        assert answer.text.count(secret) == 1
        assert secret not in secrets
        secrets.add(secret)
    return secrets


def test_what_anybody_writes_is_shown_as_text(reading: Reading) -> None:
    shown, (answers, _) = "", reading
    for path, answer in answers.items():
        if answer.headers.get("content-type", "").startswith("text/html"):
            page = _Page()
            page.feed(answer.text)
            assert page.wrong == [], path
            shown += "\n".join(page.shown)
        else:
            assert answer.status_code == 303 or "attachment" in answer.headers["content-disposition"], path
    assert [name for name in FIELDS if mark(name) not in shown] == []
    assert "alert(1)>{{7*7}}" in shown
    assert "alert(1)>49" not in shown, "no template is made of a text"


def test_a_secret_is_shown_where_it_is_made_and_never_again(reading: Reading) -> None:
    answers, secrets = reading
    for path, answer in answers.items():
        said = answer.text + str(answer.headers)
        assert [each for each in secrets if each in said] == [], path
        assert KEY.findall(answer.text) == SECRET.findall(answer.text) == [], path
