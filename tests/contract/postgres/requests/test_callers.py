"""Frequent reads: the caller of each request, alone and together with others."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus, shown_status
from meetcore.domain.meetings.views import MeetingFilter
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.domain.requests.views import AccountSummary, NewAccount
from meetcore.ports.queries import MAX_PAGE, Caller, CallerIncludes
from meetcore.ports.store import StoreUnavailable
from tests.support.fakes import PlainCipher
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    email_of,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    scheduled,
)


async def test_a_caller_is_found_by_the_digest_of_the_key(rig: PostgresRig) -> None:
    id_ = new_id()
    account = NewAccount(id_, new_id(), email_of(id_), "Dewi Ayu", 100, AT)
    scopes = (Scope.WEBHOOKS_WRITE, Scope.MEETINGS_READ)
    key = ApiKey(new_id(), account.id, scopes, 500, AT, expires_at=AT)
    digest = bytes(range(16)) + account.id.bytes
    await rig.alone.registry.add_account(account)
    await rig.alone.registry.add_key(key, digest)
    summary = AccountSummary(account.id, account.user_id, account.email, "Dewi Ayu", 0)
    assert await rig.queries.find_caller(digest) == Caller(key, summary)
    assert await rig.queries.find_caller(bytes(32)) is None
    await rig.queries.ping()


async def test_the_secrets_of_a_url_are_those_of_every_account(rig: PostgresRig) -> None:
    one, other = await open_customer(rig), await open_customer(rig)
    url = f"https://hooks.example/{new_id()}"
    first = await register(rig, new_endpoint(one, url_key=url))
    second = await register(rig, new_endpoint(other, url_key=url))
    await register(rig, new_endpoint(other))
    assert {*await rig.queries.find_secrets(url)} == {first.secret, second.secret}
    assert list(await rig.queries.find_secrets("https://nobody.example/")) == []


ROUNDS = 5


async def test_each_of_many_callers_gets_its_own_answer(rig: PostgresRig) -> None:
    customers = [await open_customer(rig, 50 + number) for number in range(4)]
    asked = await _questions(rig, customers)
    alone = [await rig.queries.find_caller(digest, includes) for digest, includes in asked]
    together = await asyncio.gather(
        *(rig.queries.find_caller(digest, includes) for _ in range(ROUNDS) for digest, includes in asked)
    )
    assert together == alone * ROUNDS
    for found, expected in zip(together, alone * ROUNDS, strict=True):
        assert _meeting_of(found) == _meeting_of(expected)


async def test_callers_who_ask_after_a_change_see_it(rig: PostgresRig) -> None:
    """However many others ask before, meanwhile and after."""
    customer, others = await open_customer(rig), [await open_customer(rig) for _ in range(3)]
    is_over, asked = asyncio.Event(), [0]

    async def ask_on(other: Customer) -> None:
        while not is_over.is_set():
            assert await rig.queries.find_caller(other.digest) is not None
            asked[0] += 1
            await asyncio.sleep(0)

    asking = [asyncio.create_task(ask_on(other)) for other in others for _ in range(5)]
    await rig.alone.registry.revoke_key(customer.key_id, AT)
    await rig.alone.registry.suspend_account(others[0].account_id, AT)
    before = asked[0]
    found = await asyncio.gather(
        *(
            rig.queries.find_caller(each.digest, includes)
            for each in (customer, others[0])
            for includes in (CallerIncludes(), CallerIncludes(usage_on=AT.date()))
            for _ in range(ROUNDS)
        )
    )
    assert [caller is not None and caller.key.revoked_at for caller in found] == [AT] * 10 + [None] * 10
    assert [caller is not None and caller.account.suspended_at for caller in found] == [None] * 10 + [AT] * 10
    is_over.set()
    await asyncio.gather(*asking)
    assert asked[0] > before


async def _questions(rig: PostgresRig, customers: list[Customer]) -> list[tuple[bytes, CallerIncludes]]:
    """Return what some callers ask, unknown ones and meetings of others among them."""
    await rig.put_hosts(new_host(), new_host())
    meetings = [(await scheduled(rig, customer)).id for customer in customers[:2]]
    includes = [
        CallerIncludes(),
        CallerIncludes(usage_on=AT.date()),
        CallerIncludes(usage_on=AT.date() + timedelta(days=1)),
        *(CallerIncludes(meeting_id=id_) for id_ in (*meetings, new_id())),
    ]
    digests = [bytes(32), *(customer.digest for customer in customers)]
    return [(digest, each) for each in includes for digest in digests]


def _meeting_of(caller: Caller | None) -> object:
    return None if caller is None else caller.load_meeting()


SHOWN = (None, *(MeetingStatus(name) for name in ("scheduled", "started", "ended", "cancelled")))
SOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=3)

# A thousand meetings for one: an hour apart, each in the next of the states, some of them being cancelled.
# The record stands in FROM: in the list of columns it would be made anew for each column: seconds.
# No sealed value is copied: it opens under its own id only, and each refusal is logged with a traceback.
_MULTIPLY = """
INSERT INTO meetings
SELECT made.* FROM meetings m, generate_series(1, 6000) AS n, jsonb_populate_record(m, jsonb_build_object(
    'id', lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint + n), 12, '0') || '7000'
        || '8000000000000000',
    'status', (ARRAY['ended', 'cancelled', 'scheduled', 'cancelling', 'started', 'abandoned'])[n %% 6 + 1],
    'start_at', m.start_at + n * interval '1 hour', 'end_at', m.end_at + n * interval '1 hour',
    'provider_meeting_id', NULL, 'password', NULL, 'join_url', NULL)) AS made
WHERE m.id = %(id)s
"""


async def test_a_page_of_many_meetings_is_that_of_few(rig: PostgresRig):
    """Whether a range is read whole or walked through makes no difference."""
    customer = await open_customer(rig, 100, new_host())
    first = await scheduled(rig, customer, MeetingSpec(SOON))
    rig.read(_MULTIPLY, id=first.id)  # a connection of the pool has a deadline
    everything: list[Meeting] = []
    wanted = MeetingFilter(SOON)
    while page := await rig.queries.list_meetings(
        customer.account_id, wanted, MAX_PAGE, everything[-1].id if everything else None
    ):
        everything += page
    assert len(everything) == 5001
    hour, walked = timedelta(hours=1), 0
    ranges = [(0, 6000), (None, 5500), (1000, None), (500, 5990), (10, 900), (5000, 5007), (7000, None)]
    for (start, end), status in product(ranges, SHOWN):
        starts_from = None if start is None else SOON + start * hour
        starts_before = None if end is None else SOON + end * hour
        wanted = MeetingFilter(SOON + 3000.5 * hour, status, starts_from, starts_before)
        expected = [
            meeting
            for meeting in everything
            if status in (None, shown_status(meeting, wanted.now))
            and (starts_from is None or starts_from <= meeting.start_at)
            and (starts_before is None or meeting.start_at < starts_before)
        ]
        walked += len(expected) > 2000
        for before in (None, everything[2000].id):
            below = [meeting for meeting in expected if before is None or meeting.id < before]
            found = await rig.queries.list_meetings(customer.account_id, wanted, 7, before)
            assert list(found) == below[:7], (start, end, status)
    assert walked > 5


async def test_a_lost_database_is_unavailable():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        closed_port = holder.getsockname()[1]
    nowhere = f"postgresql://nobody@127.0.0.1:{closed_port}/none"
    pool = make_pool(nowhere, min_size=0, max_size=1, timeout_s=0.2)
    await pool.open()
    try:
        with pytest.raises(StoreUnavailable):
            await PostgresQueries(pool, PlainCipher()).ping()
        with pytest.raises(StoreUnavailable):
            async with PostgresStore(pool, PlainCipher()).begin():
                raise AssertionError("there is no transaction")
    finally:
        await pool.close()
