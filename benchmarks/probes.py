"""Readers and writers of every table that a migration touches, and a watch for those that wait behind it.

Each probe runs a short read and a short write in turn, some fifty times a second, on a connection of its own. What one
takes has the noise of the machine in it; how long it waits for a lock that the migration holds, or waits for, has not.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from attrs import define, field, frozen

from meetcore.adapters.postgres.pool import application_name

__all__ = ["MIGRATOR", "Probing", "Waited", "probing", "watching"]

MIGRATOR = application_name("migrate")
"""What the server shows of the connection of a migration that this process runs."""
_PAUSE_S = 0.02
_LOOK_EVERY_S = 0.01

# A posting as the service does it: the account's lock, a transfer and its two legs.
_POST = """
WITH locked AS (
    UPDATE accounts SET entries = entries + 1, balance = balance - 10, version = version + 1, last_at = now()
    WHERE id = bench_id('account', %(account)s) RETURNING id, entries, balance
), transfer AS (
    INSERT INTO ledger_transfers (account_id, id, operation, kind, amount, source, destination, reference_type, reference_id)
    SELECT id, gen_random_uuid(), 'probe:' || gen_random_uuid(), 'meeting_charge', 10, 'customer', 'meetings', 'meeting', 'x'
    FROM locked RETURNING account_id, id
)
INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash)
SELECT l.id, l.entries, leg.book, t.id, leg.amount, CASE leg.book WHEN 'customer' THEN l.balance END, now(), leg.hash
FROM locked l JOIN transfer t ON t.account_id = l.id
CROSS JOIN (VALUES ('customer', -10, sha256('x')), ('meetings', 10, NULL)) AS leg (book, amount, hash)
"""
_READ_ENTRIES = """SELECT * FROM ledger_entries WHERE account_id = bench_id('account', %(account)s) AND book = 'customer'
    ORDER BY number DESC LIMIT 20"""
_NEW = "gen_random_uuid()"
_KEY = "sha256(gen_random_uuid()::text::bytea)"

# By name: a read, a write, and the account of the posting.
_STATEMENTS: dict[str, tuple[str, str, int]] = {
    "ledger, largest account": (_READ_ENTRIES, _POST, 1),
    "ledger, small account": (_READ_ENTRIES, _POST, 3),
    "accounts": (
        "SELECT id FROM accounts WHERE lower(email) = 'user5@bench.example'",
        "UPDATE accounts SET version = version + 1 WHERE id = bench_id('account', 5)",
        0,
    ),
    "api_keys": (
        "SELECT scopes FROM api_keys WHERE digest = sha256('key7')",
        "UPDATE api_keys SET last_used_at = now() WHERE id = bench_id('key', 7)",
        0,
    ),
    "users": (
        "SELECT id FROM users WHERE lower(email) = 'user5@bench.example'",
        f"INSERT INTO users SELECT {_NEW}, {_NEW} || '@probe.example', 'Probe', now()",
        0,
    ),
    "sessions": (
        "SELECT account_id FROM sessions WHERE digest = sha256('session9')",
        "UPDATE sessions SET last_seen_at = now() WHERE id = bench_id('session', 9)",
        0,
    ),
    "sign_in_links": (
        "SELECT purpose FROM sign_in_links WHERE digest = sha256('link11')",
        f"INSERT INTO sign_in_links (id, digest, purpose, created_at, expires_at, user_id) "
        f"SELECT {_NEW}, {_KEY}, 'email', now(), now() + interval '1 day', bench_id('user', 11)",
        0,
    ),
    "invitations": (
        "SELECT role FROM invitations WHERE id = bench_id('invitation', 13)",
        f"INSERT INTO invitations (id, account_id, email, role, created_at, expires_at) "
        f"SELECT {_NEW}, bench_id('account', 13), {_NEW} || '@probe.example', 'viewer', now(), now()",
        0,
    ),
    "mails": (
        "SELECT count(*) FROM mails WHERE due_at <= now()",
        f"INSERT INTO mails (id, recipient, kind, language, created_at, attempts_made, sent_at) "
        f"SELECT {_NEW}, {_NEW} || '@probe.example', 'low_credits', 'id', now(), 1, now()",
        0,
    ),
    "meetings": (
        "SELECT * FROM meetings WHERE account_id = bench_id('account', 1) ORDER BY id DESC LIMIT 20",
        "UPDATE meetings SET title = 'Rapat ' || clock_timestamp() "
        "WHERE account_id = bench_id('account', 15) AND id = bench_id('meeting', 15)",
        0,
    ),
    "orphan_checks": (
        "SELECT meeting_id FROM orphan_checks WHERE due_at <= now() LIMIT 10",
        "UPDATE orphan_checks SET due_at = now() + interval '1 day' "
        "WHERE account_id = bench_id('account', 17) AND meeting_id = bench_id('meeting', 17)",
        0,
    ),
    "webhook_endpoints": (
        "SELECT url FROM webhook_endpoints WHERE account_id = bench_id('account', 19) AND id = bench_id('endpoint', 19)",
        "UPDATE webhook_endpoints SET consecutive_failures = 0 "
        "WHERE account_id = bench_id('account', 19) AND id = bench_id('endpoint', 19)",
        0,
    ),
    "events and deliveries": (
        "SELECT id FROM deliveries WHERE account_id = bench_id('account', 1) ORDER BY id DESC LIMIT 20",
        f"WITH event AS (INSERT INTO events (account_id, id, kind, payload, created_at) "
        f"SELECT bench_id('account', 21), {_NEW}, 'meeting.ended', 'x', now() RETURNING account_id, id) "
        f"INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, created_at) "
        f"SELECT account_id, {_NEW}, {_NEW}, id, 'meeting.ended', 'succeeded', now() FROM event",
        0,
    ),
    "notes": (
        "SELECT status FROM notes WHERE account_id = bench_id('account', 1) ORDER BY id DESC LIMIT 20",
        "UPDATE notes SET tries = 0 WHERE account_id = bench_id('account', 23) AND id = bench_id('note', 23)",
        0,
    ),
}


@frozen
class Took:
    """One statement of a probe: when it began, and how long it took, in seconds."""

    name: str
    began: float
    seconds: float


@define
class Probing:
    """What the probes took, and what failed of them."""

    took: list[Took] = field(factory=list)
    failed: Counter[str] = field(factory=Counter)
    stop: threading.Event = field(factory=threading.Event)

    def longest(self, since: float, until: float) -> Took:
        """The statement that took longest of those that ran in a time."""
        none = Took("none", since, 0.0)
        within = (one for one in self.took if one.began < until and one.began + one.seconds > since)
        return max(within, key=lambda one: one.seconds, default=none)


@contextmanager
def probing(url: str) -> Iterator[Probing]:
    """Run the probes while the block does."""
    found = Probing()
    threads = [threading.Thread(target=_probe, args=(url, name, found)) for name in _STATEMENTS]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        found.stop.set()
        for thread in threads:
            thread.join()


def _probe(url: str, name: str, found: Probing) -> None:
    *both, account = _STATEMENTS[name]
    with psycopg.connect(url, autocommit=True) as connection:
        while not found.stop.wait(_PAUSE_S):
            for kind, statement in zip(("read", "write"), both, strict=True):
                began = time.monotonic()
                try:
                    connection.execute(statement.encode(), {"account": account})
                except psycopg.Error as error:
                    found.failed[f"{kind} {name}: {' '.join(str(error).split())[:200]}"] += 1
                found.took.append(Took(f"{kind} {name}", began, time.monotonic() - began))


@frozen
class Waited:
    """One that waited behind the migration, as it was seen."""

    since: float
    until: float
    query: str

    @property
    def seconds(self) -> float:
        return self.until - self.since


# Sessions that wait for a lock that the migration holds or waits for before them.
_WAITING = """
WITH migration AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE application_name = %s)
SELECT a.pid, a.query FROM pg_stat_activity a
WHERE a.wait_event_type = 'Lock' AND a.datname = current_database()
    AND a.pid NOT IN (SELECT pid FROM migration)
    AND pg_blocking_pids(a.pid) && (SELECT array_agg(pid) FROM migration)
"""


@contextmanager
def watching(url: str) -> Iterator[Callable[[], list[Waited]]]:
    """Watch who waits behind the migration; the value returns what was seen so far."""
    seen: list[Waited] = []
    open_: dict[int, Waited] = {}
    stop = threading.Event()

    def look(connection: psycopg.Connection) -> None:
        now = time.monotonic()
        rows: dict[int, str] = dict(connection.execute(_WAITING, [MIGRATOR]).fetchall())
        for pid in open_.keys() - rows.keys():
            seen.append(open_.pop(pid))
        for pid, query in rows.items():
            since = open_[pid].since if pid in open_ else now
            open_[pid] = Waited(since, now, " ".join(query.split())[:60])

    def run() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stop.wait(_LOOK_EVERY_S):
                look(connection)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: [*seen, *open_.values()]
    finally:
        stop.set()
        thread.join()
