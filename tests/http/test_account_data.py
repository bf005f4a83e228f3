"""What an account has here as a whole: all of it as a file, and its erasure."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from attrs import evolve

from meetcore.composition.application import Application
from meetcore.domain.errors import Conflict, Unprocessable
from meetcore.domain.mails.topics import MailTopic
from meetcore.domain.members.roles import Role
from meetcore.domain.money.views import TransactionFilter
from meetcore.domain.payments.receipts import Buyer
from meetcore.ports.store import ConnectionLost, Store, Transaction
from meetcore.testing.clock import ManualClock
from meetcore.usecases.members.dashboard import SentForm
from meetcore.usecases.members.sign_in_links import Browser
from meetcore.usecases.requests.erasure import EraseAccount
from tests.support.api_harness import ApiHarness, Customer, until
from tests.support.names import Names
from tests.support.paid_payments import a_paid_payment
from tests.support.sandbox_recordings import a_note
from tests.support.visitors import SignIn

EXPORT = "/dashboard/settings/export"
ERASE = "/dashboard/settings/erase"

# Every column of a text, by table.
_TEXTS = """
SELECT table_name, string_agg(quote_ident(column_name) || '::text', ', ') AS columns
FROM information_schema.columns
WHERE table_schema = 'public' AND data_type IN ('text', 'jsonb', 'ARRAY')
    AND table_name IN (SELECT table_name FROM information_schema.columns WHERE column_name = 'account_id')
GROUP BY table_name
"""


def files_of(archive: bytes) -> dict[str, list[dict[str, Any]]]:
    """The lines of each file, by its name."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert opened.testzip() is None
        return {
            name.removesuffix(".jsonl"): [json.loads(line) for line in opened.read(name).splitlines()]
            for name in opened.namelist()
            if name.endswith(".jsonl")
        }


async def test_everything_of_an_account_comes_as_a_file(
    customer: Customer, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meetcore.usecases.requests.export.PAGE", 1)  # there is another page of everything
    webhooks = [await customer.make_webhook() for _ in range(2)]
    note = await a_note(customer)
    for number in range(3):
        await customer.make_meeting(title=f"Rapat <{number}>")
    other = await customer.harness.customer()
    foreign = await other.make_meeting(title="Of another account")
    unpaid = (await customer.post("/credits/topups", {"package_id": "credits-500"})).json()
    paid = await a_paid_payment(customer)
    await customer.query(
        """INSERT INTO passkeys (id, user_id, credential, public_key, sign_count, name, created_at)
        VALUES (%s, %s, %s, %s, 0, 'Laptop', '2026-11-02T03:04:05Z')""",
        uuid4(), customer.user_id, uuid4().bytes, b"the public key",
    )  # fmt: skip
    browser = await sign_in(customer.account_id)
    billing = {"name": "PT Sinar Rapat", "address": "Jl. Mawar 2", "tax_number": "09.876"}
    assert (await browser.post("/dashboard/credits/billing", **billing)).status_code == 303
    page = (await browser.get("/dashboard/settings")).text
    assert f'action="{EXPORT}" data-file>' in page, "its page stays: it can be sent again"
    answer = await browser.post(EXPORT)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    assert str(customer.account_id) in answer.headers["content-disposition"]
    files = files_of(answer.content)
    assert [one["email"] for one in files["account"]] == [customer.email]
    [member] = files["members"]
    assert (member["role"], member["mail_topics"]) == ("owner", [topic.value for topic in MailTopic])
    [passkey] = files["passkeys"]
    assert set(passkey) == {"id", "user_id", "name", "created_at", "last_used_at"}
    shown = (passkey["user_id"], passkey["name"], passkey["created_at"], passkey["last_used_at"])
    assert shown == (str(customer.user_id), "Laptop", "2026-11-02T03:04:05Z", None)
    assert len(files["meetings"]) == 4
    assert {one["title"] for one in files["meetings"]} >= {"Rapat <0>", "Rapat <1>", "Rapat <2>"}
    assert [one["id"] for one in files["recordings"]] == [note["recording_id"]]
    assert files["notes"][0]["transcript"]
    assert {one["id"] for one in files["webhooks"]} == {one["id"] for one in webhooks}
    assert {one["webhook_id"] for one in files["deliveries"]} == {one["id"] for one in webhooks}
    assert [one["client_address"] for one in files["sessions"]] == ["127.0.0.1"]
    assert files["ledger"][0]["balance_after"] == await customer.balance()
    assert min(len(files["deliveries"]), len(files["events"])) >= 4
    assert files["audit_log"][0]["action"] == "account.exported"
    assert files["billing"] == [billing]
    assert [(one["id"], one["amount"], one["status"]) for one in files["payments"]] == [
        (paid, 555_000, "paid"), (unpaid["id"], 555_000, "pending"),
    ]  # fmt: skip
    receipt = files["payments"][0]["receipt"]
    assert (receipt["buyer"]["name"], "-" in receipt["number"]) == ("Sari Dewi", True)
    assert files["payments"][1]["receipt"] is None
    content = json.dumps(files)
    assert foreign["id"] not in content
    for secret in ("whsec_", customer.key.text, '"secret"', unpaid["payment_url"]):
        assert secret not in content
    assert {one["password"] for one in files["meetings"]} == {None}


async def test_an_export_is_in_the_audit_log_with_its_address(customer: Customer, sign_in: SignIn) -> None:
    await (await sign_in(customer.account_id)).post(EXPORT)
    log = await customer.application.ports.queries.list_audit_entries(customer.account_id, 10, None)
    assert (log[0].action, log[0].client_address) == ("account.exported", "127.0.0.1")


async def test_one_export_of_an_account_is_made_at_a_time(customer: Customer) -> None:
    export = customer.application.account_data.export
    pieces = await export(customer.account_id)
    first = await anext(pieces)
    assert customer.account_id in export.running
    with pytest.raises(Unprocessable):
        await export(customer.account_id)
    browser_gave_up = pieces
    await browser_gave_up.aclose()
    assert export.running == set()
    again = b"".join([piece async for piece in await export(customer.account_id)])
    assert again.startswith(first[:4])
    assert export.running == set()


async def test_long_lists_come_whole(customer: Customer) -> None:
    await customer.query(
        "INSERT INTO audit_log (id, account_id, at, actor_kind, actor_name, action, target_id, details,"
        " is_impersonated)"
        " SELECT gen_random_uuid(), %s, now(), 'system', 'root', 'key.created', 'x', '{}', false"
        " FROM generate_series(1, 450)",
        customer.account_id,
    )
    pieces = await customer.application.account_data.export(customer.account_id)
    files = files_of(b"".join([piece async for piece in pieces]))
    assert len(files["audit_log"]) >= 450
    assert len({one["id"] for one in files["audit_log"]}) == len(files["audit_log"])


async def live(customer: Customer) -> dict[str, Any]:
    """A life in which something of every kind is kept; returns its notes."""
    await customer.make_webhook(description="RAHASIA hook")
    note = await a_note(customer)
    await customer.query(
        "INSERT INTO transcript_chunks SELECT account_id, id, 'x', 0, 'x' FROM recordings WHERE id = %s",
        note["recording_id"],
    )
    await customer.query(
        "INSERT INTO mails (id, account_id, recipient, kind, language, created_at, failed_at, attempts_made)"
        " VALUES (gen_random_uuid(), %s, 'RAHASIA', 'invitation', 'id', now(), now(), 1)",
        customer.account_id,
    )
    meeting = await customer.make_meeting(title="RAHASIA rapat", description="RAHASIA agenda")
    await customer.delete(f"/meetings/{meeting['id']}", idem="RAHASIA")
    return note


async def texts_of(harness: ApiHarness, account_id: UUID) -> str:
    """What the database keeps of an account in the clear, without the ledger."""
    found = []
    for table in await harness.query(_TEXTS):
        name = table["table_name"]
        if name not in ("ledger_transfers", "ledger_entries"):
            texts = f"SELECT concat_ws(' ', {table['columns']}) AS texts FROM {name} WHERE account_id = %s"
            found += await harness.query(texts, account_id)
    found += await harness.query(
        "SELECT concat_ws(' ', email, full_name) AS texts FROM accounts WHERE id = %s", account_id
    )
    return " ".join(row["texts"] for row in found)


async def test_an_erased_account_keeps_its_ledger_and_nothing_else(
    customer: Customer, harness: ApiHarness, sign_in: SignIn
) -> None:
    await live(customer)
    before = (await customer.get("/credits/transactions?limit=100")).json()["data"]
    assert "RAHASIA" in await texts_of(harness, customer.account_id)
    browser = await sign_in(customer.account_id)
    invited = f"tamu-{uuid4().hex}@example.com"
    await browser.post("/dashboard/team/invitations", email=invited, role="viewer")
    assert invited in await texts_of(harness, customer.account_id)
    tables = (
        "events", "deliveries", "webhook_endpoints", "transcript_chunks", "mails", "memberships",
        "idempotency_keys",
    )  # fmt: skip
    of_account = "SELECT 1 FROM {} WHERE account_id = %s"
    for table in tables:
        assert await customer.query(of_account.format(table), customer.account_id), table
    wrong = await browser.post(ERASE, account_id="x")
    assert wrong.status_code == 422
    assert "Nothing was erased" in wrong.text
    page = await browser.post(ERASE, account_id=str(customer.account_id).upper())
    assert page.status_code == 200, page.text
    assert "The account is erased" in page.text
    assert (await browser.get("/dashboard")).status_code == 303, "the session is over"
    assert (await customer.get("/me")).status_code == 401
    erase = customer.application.account_data.erase

    async def finished() -> bool | None:
        await erase.work_on(customer.account_id)
        rows = await customer.query(
            "SELECT finished_at FROM account_erasures WHERE account_id = %s", customer.account_id
        )
        return rows[0]["finished_at"] is not None or None

    await until(finished, 60.0)
    left = await texts_of(harness, customer.account_id)
    for text in ("RAHASIA", customer.email, "Sari Dewi", invited):
        assert text not in left
    for table in tables:
        assert await customer.query(of_account.format(table), customer.account_id) == [], table
    account = await customer.application.ports.registry.find_account(customer.account_id)
    assert (account.full_name, account.suspended_at is not None) == ("Erased", True)
    entries = await customer.application.ports.queries.list_transactions(
        customer.account_id, TransactionFilter(), 100, None
    )
    assert [entry.balance_after for entry in entries] == [one["balance_after"] for one in before]
    audit = await customer.application.verify_ledger()
    assert [one for one in audit.findings if str(customer.account_id) in str(one)] == []
    assert (await erase(customer.account_id)).finished_at is not None, "asked again, nothing happens"
    log = await customer.application.ports.queries.list_audit_entries(customer.account_id, 50, None)
    assert [entry.action for entry in log].count("account.erased") == 1


async def test_nothing_is_written_into_an_account_that_is_erased_meanwhile(
    customer: Customer, application: Application, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await application.access.portal_links.for_guest(customer.account_id, Role.OWNER)
    made = await application.access.redeem_link.for_customer(link.url.rpartition("/")[2], Browser())
    owner = await application.access.sessions.find(made.token)
    assert owner is not None
    resolve, erase = names.resolve, application.account_data.erase

    async def erased(host: str, account_id: UUID) -> Any:
        await erase(customer.account_id)
        assert await erase.work_on(customer.account_id)
        return await resolve(host, account_id)

    monkeypatch.setattr(names, "resolve", erased)
    refused = await customer.post("/webhooks", customer.harness.webhook_body())
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    with pytest.raises(Conflict):
        await application.dashboard.credits.save_buyer(
            owner, Buyer("RAHASIA"), SentForm("a", application.runtime.now())
        )
    for table in ("webhook_endpoints", "billing_details"):
        assert await customer.query(f"SELECT 1 FROM {table} WHERE account_id = %s", customer.account_id) == []


async def test_meetings_that_are_to_take_place_are_cancelled_first(
    customer: Customer, sign_in: SignIn
) -> None:
    meeting = await customer.make_meeting()
    browser = await sign_in(customer.account_id)
    refused = await browser.post(ERASE, account_id=str(customer.account_id))
    assert refused.status_code == 409
    assert "Cancel them first" in refused.text
    assert (await customer.get("/me")).status_code == 200
    await customer.delete(f"/meetings/{meeting['id']}")
    assert (await browser.post(ERASE, account_id=str(customer.account_id))).status_code == 200


@pytest.fixture
def erase(application: Application) -> EraseAccount:
    """Erases a day ahead, so that the service's own worker takes up nothing that a test does."""
    clock = ManualClock(application.runtime.now() + timedelta(days=1))
    return evolve(application.account_data.erase, runtime=evolve(application.runtime, clock=clock))


@pytest.mark.parametrize("dies_at", range(1, 12))
async def test_an_erasure_that_was_interrupted_is_finished_by_the_workers(
    dies_at: int, harness: ApiHarness, application: Application, erase: EraseAccount
) -> None:
    customer = await harness.customer()
    for _ in range(3):
        meeting = await customer.make_meeting(title="RAHASIA rapat")
        assert (await customer.delete(f"/meetings/{meeting['id']}")).status_code == 200
    await customer.make_webhook(description="RAHASIA hook")
    erase = evolve(erase, portion=1)
    with contextlib.suppress(ConnectionLost):
        dying = evolve(erase, store=_DyingStore(application.ports.store, dies_at))
        await dying(customer.account_id)
        await dying.work_on(customer.account_id)
    if dies_at == 1:
        await erase(customer.account_id)
    await erase.sweep()
    assert "RAHASIA" not in await texts_of(harness, customer.account_id)
    rows = await harness.query(
        "SELECT finished_at FROM account_erasures WHERE account_id = %s", customer.account_id
    )
    assert rows[0]["finished_at"] is not None


async def test_an_erasure_that_fails_stops_neither_others_nor_its_own_other_parts(
    harness: ApiHarness, erase: EraseAccount
) -> None:
    broken, other = await harness.customer(), await harness.customer()
    await live(broken)
    kept = await harness.query("SELECT files FROM recordings WHERE account_id = %s", broken.account_id)
    write = "UPDATE recordings SET files = %s WHERE account_id = %s"
    await harness.query(write, b"unreadable", broken.account_id)
    for one in (broken, other):
        await erase(one.account_id)
    with pytest.raises(ExceptionGroup) as failed:
        await erase.sweep()
    assert str(broken.account_id) in "".join(failed.value.exceptions[0].__notes__)
    finished = "SELECT finished_at FROM account_erasures WHERE account_id = %s"
    assert (await harness.query(finished, broken.account_id))[0]["finished_at"] is None
    assert (await harness.query(finished, other.account_id))[0]["finished_at"] is not None
    assert "RAHASIA" not in await texts_of(harness, broken.account_id)
    await erase.sweep()
    await harness.query(write, kept[0]["files"], broken.account_id)
    await erase.work_on(broken.account_id)


class _DyingStore:
    """A store whose process ends before a commit, counted from 1: nothing of that transaction is kept."""

    def __init__(self, store: Store, dies_at: int) -> None:
        self._store = store
        self._left = dies_at

    @contextlib.asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        async with self._store.begin() as tx:
            yield tx
            self._left -= 1
            if self._left <= 0:
                raise ConnectionLost("the process ends here")

    def at_once(self) -> contextlib.AbstractAsyncContextManager[Transaction]:
        return self._store.at_once()
