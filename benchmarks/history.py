"""A database as the last release left it, with a long history: one account that has half of it, and many small ones.

The rows are made by the database itself. Nothing of it opens or verifies: only the places of the rows count.
"""

from unittest.mock import patch

import psycopg

from meetcore.adapters.postgres import migrate as module
from meetcore.adapters.postgres.migration_steps import load_migrations

__all__ = ["LAST_RELEASE", "account_id", "fill", "migrate_to"]

LAST_RELEASE = 22
"""The last step of the release whose tables `fill` fills."""

_MAKE_ID = """
CREATE FUNCTION bench_id(kind text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(1760000000000 + n), 12, '0') || '7' || substr(md5(kind || n), 1, 3) || '8'
        || substr(md5(kind || n), 4, 15))::uuid $$;
CREATE FUNCTION bench_account(n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT bench_id('account', CASE WHEN n % 2 = 0 THEN 1 ELSE n END) $$
"""
_NUMBERS = "generate_series(1, %(rows)s::bigint) AS n"
_AT = "now() - interval '1 day' * (n %% 365)"
_LATELY = "now() - interval '1 hour' * (n %% 400)"  # younger than what housekeeping removes

# Of the rows of each table, every second one is of the account 1; its entries are numbered in the order of n. But each
# account has one webhook: an account may have a few, and where one had them all, every plan would read them all.
_STATEMENTS = (
    f"""INSERT INTO users (id, email, full_name, created_at)
    SELECT bench_id('user', n), 'user' || n || '@bench.example', 'User ' || n, {_AT} FROM {_NUMBERS}""",
    f"""INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low, balance, entries, last_at)
    SELECT bench_id('account', n), bench_id('user', n), 'user' || n || '@bench.example', 'Account ' || n, {_AT}, 100, false,
        1000000, CASE WHEN n = 1 THEN 1 + %(rows)s::bigint / 2 ELSE n %% 2 END, now() FROM {_NUMBERS}""",
    f"""INSERT INTO memberships (account_id, user_id, role, created_at)
    SELECT bench_id('account', n), bench_id('user', n), 'owner', {_AT} FROM {_NUMBERS}""",
    f"""INSERT INTO api_keys (id, account_id, digest, scopes, created_at, last_four)
    SELECT bench_id('key', n), bench_account(n), sha256(('key' || n)::bytea), '{{meetings:write}}', {_AT}, lpad(n::text, 4, '0')
    FROM {_NUMBERS}""",
    f"""INSERT INTO sessions (id, digest, account_id, user_id, created_at, last_seen_at, authenticated_at, user_agent)
    SELECT bench_id('session', n), sha256(('session' || n)::bytea), bench_account(n), bench_id('user', n), {_LATELY}, {_LATELY}, {_LATELY},
        'Bench' FROM {_NUMBERS}""",
    f"""INSERT INTO invitations (id, account_id, email, role, created_at, expires_at)
    SELECT bench_id('invitation', n), bench_account(n), 'guest' || n || '@bench.example', 'viewer', {_AT}, now() + interval '1 day' FROM {_NUMBERS}""",
    f"""INSERT INTO sign_in_links (id, digest, purpose, created_at, expires_at, user_id)
    SELECT bench_id('link', n), sha256(('link' || n)::bytea), 'email', {_AT}, now() + interval '1 day', bench_id('user', n) FROM {_NUMBERS}""",
    f"""INSERT INTO mails (id, account_id, recipient, kind, language, created_at, attempts_made, sent_at)
    SELECT bench_id('mail', n), bench_account(n), 'user' || n || '@bench.example', 'low_credits', 'id', {_LATELY}, 1, now()
    FROM {_NUMBERS}""",
    f"""INSERT INTO ledger_transfers (account_id, id, operation, kind, amount, source, destination, reference_type, reference_id)
    SELECT bench_account(n), bench_id('transfer', n), 'op:' || n, 'meeting_charge', 10, 'customer', 'meetings', 'meeting',
        bench_id('meeting', n)::text FROM {_NUMBERS}""",
    f"""INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash)
    SELECT bench_account(n), CASE WHEN n %% 2 = 0 THEN n / 2 + 1 ELSE 1 END, leg.book, bench_id('transfer', n), leg.amount,
        leg.balance, {_AT}, leg.hash
    FROM {_NUMBERS} CROSS JOIN (VALUES ('customer', -10, 1000000::bigint, sha256('x')), ('meetings', 10, NULL, NULL))
        AS leg (book, amount, balance, hash)""",
    f"""INSERT INTO meetings (account_id, id, api_key_id, status, title, start_at, end_at, duration, pricing_tier_id, credits,
        with_recording, auto_notulen, must_login, mic_off, email_notification, provider, created_at, provider_meeting_id)
    SELECT bench_account(n), bench_id('meeting', n), bench_id('key', n), CASE WHEN n %% 50 = 0 THEN 'cancelled' ELSE 'ended' END,
        'Rapat ' || (ARRAY['anggaran', 'produk', 'mingguan', 'tim', 'pelanggan'])[1 + n %% 5] || ' ' || substr(md5(n::text), 1, 5),
        {_AT}, {_AT} + interval '1 hour', 60, 'standard-100', 10, true, false, false, false, false, 'sandbox', {_AT}, 'bench-' || n
    FROM {_NUMBERS}""",
    f"""INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
    SELECT bench_account(n), bench_id('meeting', n), {_LATELY}, now() + interval '1 day' FROM {_NUMBERS}""",
    """INSERT INTO webhook_hosts (host) VALUES ('bench.example')""",
    f"""INSERT INTO webhook_account_hosts (account_id, host) SELECT bench_id('account', n), 'bench.example' FROM {_NUMBERS}""",
    f"""INSERT INTO webhook_endpoints
        (account_id, id, url, url_key, event_types, state, consecutive_failures, created_by, created_at, secret)
    SELECT bench_id('account', n), bench_id('endpoint', n), 'https://bench.example/' || n, 'https://bench.example/' || n,
        '{{meeting.ended}}', CASE WHEN n %% 10 = 0 THEN 'paused' ELSE 'active' END, 0, 'x', now(), 'x' FROM {_NUMBERS}""",
    f"""INSERT INTO events (account_id, id, kind, payload, created_at)
    SELECT bench_account(n), bench_id('event', n), 'meeting.ended', decode(repeat(md5(n::text), 16), 'hex'), {_LATELY} FROM {_NUMBERS}""",
    f"""INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, created_at, attempts_made)
    SELECT bench_account(n), bench_id('delivery', n), bench_id('endpoint', CASE WHEN n %% 2 = 0 THEN 1 ELSE n END),
        bench_id('event', n), 'meeting.ended', 'succeeded', {_AT}, 1 FROM {_NUMBERS}""",
    f"""INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code)
    SELECT bench_account(n), bench_id('delivery', n), 1, {_AT}, 20, 200 FROM {_NUMBERS}""",
    f"""INSERT INTO recordings (account_id, id, meeting_id, status, files, recorded_at, created_at, provider, provider_meeting_id,
        expires_at)
    SELECT bench_account(n), bench_id('recording', n), bench_id('meeting', n), 'expired', 'x', {_AT}, {_AT}, 'sandbox',
        'bench-' || n, now() FROM {_NUMBERS}""",
    f"""INSERT INTO notes (account_id, id, api_key_id, recording_id, meeting_id, language, status, step, duration_s, created_at, error)
    SELECT bench_account(n), bench_id('note', n), bench_id('key', n), bench_id('recording', n), bench_id('meeting', n), 'id',
        'failed', 'fetch', 60, {_AT}, 'no speech' FROM {_NUMBERS}""",
    f"""INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, created_at)
    SELECT bench_account(n), 'key-' || n, sha256(('key' || n)::bytea), true, now() FROM {_NUMBERS}""",
)


def migrate_to(url: str, last: int) -> None:
    """Apply the steps up to a number."""
    steps = [step for step in load_migrations() if step.number <= last]
    with patch.object(module, "load_migrations", lambda: steps):
        module.migrate(url)


def fill(url: str, rows: int) -> None:
    """Put this number of rows into each table that grows, and of accounts."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute(_MAKE_ID)
        for statement in _STATEMENTS:
            connection.execute(statement.encode(), {"rows": rows} if "%(rows)s" in statement else None)
        connection.execute("VACUUM ANALYZE")


def account_id(connection: psycopg.Connection, number: int) -> object:
    """The id of an account; number 1 has half of every table."""
    row = connection.execute("SELECT bench_id('account', %s)", (number,)).fetchone()
    assert row is not None
    return row[0]
