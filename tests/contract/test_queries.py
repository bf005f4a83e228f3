"""Frequent queries of every store: cheap reads of what was committed."""

import socket
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus, shown_status
from meetcore.ports.queries import MAX_PAGE, MeetingFilter
from meetcore.ports.store import StoreUnavailable
from meetcore.testing.contracts import QueriesContract
from meetcore.testing.contracts.transactions import MeetingSpec, new_host, open_customer, scheduled
from tests.support.postgres_rig import PostgresRig


class TestQueries(QueriesContract):
    """In memory and in Postgres."""


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
    'provider_meeting_id', NULL, 'password', NULL, 'sealed_join_url', NULL)) AS made
WHERE m.id = %(id)s
"""


async def test_a_page_of_many_meetings_is_that_of_few(postgres_rig: PostgresRig):
    """Whether a range is read whole or walked through makes no difference."""
    rig = postgres_rig
    customer = await open_customer(rig, 100)
    await rig.put_hosts(new_host())
    first = await scheduled(rig, customer, MeetingSpec(SOON))
    await rig.rows(_MULTIPLY, id=first.id)
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
