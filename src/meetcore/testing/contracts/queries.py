"""Frequent queries of a store: cheap reads of what was committed."""

import pytest

from meetcore.domain.money import ledger
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.ports.queries import AccountSummary, Caller, CallerIncludes
from meetcore.ports.registry import NewAccount
from meetcore.testing.contracts.appending import append_one
from meetcore.testing.contracts.concurrent_callers import ConcurrentCallers
from meetcore.testing.contracts.credit_queries import CreditQueries
from meetcore.testing.contracts.event_queries import EventQueries
from meetcore.testing.contracts.free_starts import FreeStartQueries
from meetcore.testing.contracts.host_key_queries import HostKeyQueries
from meetcore.testing.contracts.meeting_queries import MeetingQueries
from meetcore.testing.contracts.note_queries import NoteQueries
from meetcore.testing.contracts.store_rig import QueriesRig
from meetcore.testing.contracts.transactions import (
    AT,
    MeetingSpec,
    email_of,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    registry_of,
    reserved,
    scheduled,
    top_up,
)
from meetcore.testing.contracts.webhook_queries import WebhookQueries


@pytest.mark.asyncio
class QueriesContract(
    WebhookQueries,
    EventQueries,
    MeetingQueries,
    HostKeyQueries,
    FreeStartQueries,
    CreditQueries,
    NoteQueries,
    ConcurrentCallers,
):
    """What `ports.queries.Queries` promises while the store answers."""

    async def test_a_caller_is_found_by_the_digest_of_the_key(self, rig: QueriesRig) -> None:
        id_ = new_id()
        account = NewAccount(id_, new_id(), email_of(id_), "Dewi Ayu", 100, AT)
        scopes = (Scope.WEBHOOKS_WRITE, Scope.MEETINGS_READ)
        key = ApiKey(new_id(), account.id, scopes, 500, AT, expires_at=AT)
        digest = bytes(range(16)) + account.id.bytes
        await registry_of(rig).add_account(account)
        await registry_of(rig).add_key(key, digest)
        summary = AccountSummary(account.id, account.user_id, account.email, "Dewi Ayu", 0)
        assert await rig.queries.find_caller(digest) == Caller(key, summary)
        assert await rig.queries.find_caller(bytes(32)) is None

    async def test_a_caller_shows_that_the_account_is_suspended(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig)
        for includes in (
            CallerIncludes(),
            CallerIncludes(usage_on=AT.date()),
            CallerIncludes(meeting_id=new_id()),
        ):
            await registry_of(rig).suspend_account(customer.account_id, AT)
            caller = await rig.queries.find_caller(customer.digest, includes)
            assert caller is not None
            assert caller.account.suspended_at == AT
            await registry_of(rig).resume_account(customer.account_id)
            caller = await rig.queries.find_caller(customer.digest, includes)
            assert caller is not None
            assert caller.account.suspended_at is None

    async def test_the_callers_balance_is_the_present_one(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig)
        await top_up(rig, customer, 70, "INV-1")
        caller = await rig.queries.find_caller(customer.digest)
        assert caller is not None
        assert caller.account.balance == 70

    async def test_a_revoked_key_is_still_found(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig)
        await registry_of(rig).revoke_key(customer.key_id, AT)
        caller = await rig.queries.find_caller(customer.digest)
        assert caller is not None
        assert caller.key.revoked_at == AT

    async def test_a_meeting_is_found_in_any_state_by_its_account_only(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig, 100), await open_customer(rig)
        await rig.put_hosts(new_host())
        meeting = (await reserved(rig, customer, MeetingSpec())).meeting
        assert await rig.queries.find_meeting(customer.account_id, meeting.id) == meeting
        assert await rig.queries.find_meeting(other.account_id, meeting.id) is None
        assert await rig.queries.find_meeting(customer.account_id, new_id()) is None

    async def test_a_meeting_is_found_by_the_providers_id_for_any_account(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        assert meeting.provider_meeting_id is not None
        assert await rig.queries.find_at_provider("sandbox", meeting.provider_meeting_id) == meeting
        assert await rig.queries.find_at_provider("zoom", meeting.provider_meeting_id) is None
        assert await rig.queries.find_at_provider("sandbox", "room-x") is None

    async def test_the_secrets_of_a_url_are_those_of_every_account(self, rig: QueriesRig) -> None:
        one, other = await open_customer(rig), await open_customer(rig)
        url = f"https://hooks.example/{new_id()}"
        first = await register(rig, new_endpoint(one, url_key=url))
        second = await register(rig, new_endpoint(other, url_key=url))
        await register(rig, new_endpoint(other))
        assert {*await rig.queries.find_secrets(url)} == {first.secret, second.secret}
        assert list(await rig.queries.find_secrets("https://nobody.example/")) == []

    async def test_an_endpoint_is_found_with_its_secret_by_its_account_only(self, rig: QueriesRig) -> None:
        customer, other = await open_customer(rig), await open_customer(rig)
        endpoint = await register(rig, new_endpoint(customer))
        assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) == endpoint
        assert await rig.queries.find_endpoint(other.account_id, endpoint.id) is None

    async def test_uncommitted_changes_are_not_read(self, rig: QueriesRig) -> None:
        customer = await open_customer(rig)
        async with rig.store.begin() as tx:
            view = await tx.postings.load_locked(customer.account_id, [])
            assert await append_one(tx, view.funds, ledger.top_up(view.funds, new_id(), "x", 5, AT)) == 0
            caller = await rig.queries.find_caller(customer.digest)
            assert caller is not None
            assert caller.account.balance == 0

    async def test_a_reachable_store_answers_a_ping(self, rig: QueriesRig) -> None:
        await rig.queries.ping()
