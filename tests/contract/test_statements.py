"""Each statement, prepared and planned for any parameters, reads no growing table from end to end."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

import meetcore.adapters.postgres as adapter
from meetcore.adapters.postgres.webhooks import deliveries
from meetcore.domain.machine import step
from meetcore.domain.webhooks.deliveries import TRANSITIONS, DeliveryEvent, DeliveryStatus
from tests.support import servers

ROWS = 40_000


class Statement(NamedTuple):
    """A whole statement: where it is, and its text."""

    module: str
    name: str
    text: str


# What begins with a verb of SQL and has no part that its module fills in, in each way that there is.
_IS_WHOLE = re.compile(r"\n?(SELECT|INSERT|UPDATE|DELETE|WITH)\b(?!.*(?<!')\{[a-z_]+\})", re.DOTALL)


def statements() -> Iterator[Statement]:
    """The statements of the `.sql` files, and the constants of the adapter that begin with a verb of SQL."""
    for found in pkgutil.walk_packages(adapter.__path__, f"{adapter.__name__}."):
        module = importlib.import_module(found.name)
        source = Path(str(module.__file__)).read_text("utf-8")
        for name in re.findall(r"^(\w+)(?:: .+)? = ", source, re.MULTILINE):
            value = getattr(module, name)
            for key, text in (value if isinstance(value, Mapping) else {"": value}).items():
                if isinstance(text, str) and _IS_WHOLE.match(text):
                    short = found.name.removeprefix(f"{adapter.__name__}.")
                    own = key if name == "SQL" else f"{name}[{key}]" if key else name
                    yield Statement(short, own, text)


# Rows of an account each, of which one in a hundred is due, held, claimed or leased.
_FILL = """
CREATE TABLE many AS SELECT n, md5(n::text)::uuid AS a, md5('x' || n)::uuid AS b, md5('y' || n)::uuid AS c,
    now() + n * interval '1 minute' AS at, n %% 100 = 0 AS is_rare FROM generate_series(1, %(rows)s) AS n;
INSERT INTO accounts (id, user_id, email, full_name, created_at, low_threshold, is_low, entries)
SELECT a, a, n || '@example.com', 'A', at, 0, false, 1 FROM many;
INSERT INTO api_keys (id, account_id, digest, scopes, created_at)
SELECT b, a, sha256(n::text::bytea), '{}', at FROM many;
INSERT INTO oauth_clients (id, name, redirect_uris, created_at) SELECT n::text, 'x', '{}', at FROM many;
INSERT INTO oauth_authorizations
    (id, client_id, redirect_uri, code_challenge, scopes, expires_at, key_id, digest)
SELECT a, n::text, 'x', 'x', '{}', at, b, sha256(n::text::bytea) FROM many;
INSERT INTO oauth_refresh_tokens
SELECT sha256(n::text::bytea), b, at, CASE WHEN is_rare THEN at END FROM many;
INSERT INTO users SELECT a, n || '@example.com', 'A', at FROM many;
INSERT INTO memberships SELECT a, a, 'owner', at FROM many;
INSERT INTO invitations (id, account_id, email, role, created_at, expires_at)
SELECT b, a, n || '@example.com', 'viewer', at, at FROM many;
INSERT INTO operators SELECT a, n || '@example.com', 'admin', at, CASE WHEN NOT is_rare THEN at END FROM many;
INSERT INTO credit_proposals (id, account_id, kind, amount, reason, reference, proposed_by, proposer,
    created_at, expires_at, is_approved, decided_by, decider, decided_at)
SELECT b, a, 'topup', 1, 'x', 'x', a, 'x', at, at, true, b, 'y', at FROM many WHERE NOT is_rare;
INSERT INTO credit_proposals (id, account_id, kind, amount, reason, reference, proposed_by, proposer,
    created_at, expires_at)
SELECT b, a, 'topup', 1, 'x', 'x', a, 'x', at, at FROM many WHERE is_rare;
INSERT INTO operator_tokens (id, digest, name, role, last_four, created_at, expires_at)
SELECT a, sha256(n::text::bytea), 'x', 'admin', 'abcd', at, at FROM many;
INSERT INTO sign_in_links (id, digest, purpose, created_at, expires_at, user_id)
SELECT b, sha256(n::text::bytea), 'email', at, at, a FROM many;
INSERT INTO identities (user_id, issuer, subject, bound_at) SELECT a, 'x', n::text, at FROM many;
INSERT INTO sessions (id, digest, account_id, user_id, created_at, last_seen_at, authenticated_at, user_agent)
SELECT b, sha256(n::text::bytea), a, a, at, at, at, 'x' FROM many;
INSERT INTO operator_sessions
    (id, digest, operator_id, created_at, last_seen_at, authenticated_at, user_agent)
SELECT b, sha256(n::text::bytea), a, at, at, at, 'x' FROM many;
INSERT INTO passkeys (id, user_id, operator_id, credential, public_key, sign_count, name, created_at)
SELECT b, CASE WHEN NOT is_rare THEN a END, CASE WHEN is_rare THEN a END, sha256(n::text::bytea), 'x', 0,
    'x', at FROM many;
INSERT INTO sign_ups
SELECT b, sha256(n::text::bytea), n || '@example.com', 'A', at, at, sha256('x') FROM many;
INSERT INTO removed_records SELECT a, b, at FROM many;
INSERT INTO passkey_challenges SELECT sha256(n::text::bytea), 'sign_in', false, sha256('x'), at FROM many;
INSERT INTO audit_log
    (id, account_id, at, actor_kind, actor_name, action, target_id, details, is_impersonated)
SELECT b, a, at, 'system', 'root', 'key.created', 'x', '{}', false FROM many;
INSERT INTO account_erasures SELECT a, at, CASE WHEN NOT is_rare THEN at END FROM many;
INSERT INTO ledger_transfers
    (account_id, id, operation, kind, amount, source, destination, reference_type, reference_id)
SELECT a, b, 'x', 'topup', 1, 'topups', 'customer', 'topup', 'x' FROM many;
INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash)
SELECT a, 1, 'customer', b, 1, 1, at, sha256('x') FROM many;
INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, at)
SELECT a, 1, 'topups', b, -1, at FROM many;
INSERT INTO ledger_day_totals SELECT a, date '2026-01-01' + n %% 3650, 'topup', 1, 1 FROM many;
INSERT INTO note_holds
    (account_id, id, operation, kind, amount, reference_type, reference_id, api_key_id, cap_day)
SELECT a, b, 'x', 'meeting_charge', 1, 'meeting', 'x', c, current_date FROM many;
INSERT INTO cap_usage SELECT a, b, current_date, 0, 0 FROM many;
INSERT INTO hosts (id, provider_user_id, capacity, max_concurrent, created_at, key_due_at)
SELECT a, 'host-' || n, 1 + n %% 1000, 1, at, CASE WHEN is_rare THEN at END FROM many;
INSERT INTO account_creations SELECT a, current_date - n %% 30, b, 1 FROM many;
INSERT INTO meetings (account_id, id, api_key_id, status, title, start_at, end_at, duration, pricing_tier_id,
    credits, with_recording, auto_notulen, must_login, mic_off, email_notification, host_id, provider,
    created_at, provider_meeting_id, lease_token, lease_until, due_at, join_url)
SELECT a, b, c, CASE WHEN is_rare THEN 'scheduled' ELSE 'ended' END, 'x', at, at + interval '1 hour', 60, 'x',
    1, true, false, false, false, false, a, 'zoom', at, n::text, CASE WHEN is_rare THEN c END,
    CASE WHEN is_rare THEN at END, CASE WHEN is_rare THEN at END, CASE WHEN is_rare THEN 'x'::bytea END
FROM many;
INSERT INTO meeting_sessions SELECT a, b, n::text, at FROM many;
INSERT INTO orphan_checks SELECT a, b, at, at, CASE WHEN is_rare THEN 1 ELSE 0 END FROM many;
INSERT INTO host_reservations SELECT a, b, a, 0, tstzrange(at, at + interval '1 hour') FROM many;
INSERT INTO webhook_hosts SELECT 'host-' || n FROM many;
INSERT INTO webhook_account_hosts SELECT a, 'host-' || n FROM many;
INSERT INTO webhook_endpoints
    (account_id, id, url, url_key, event_types, state, consecutive_failures, created_by, created_at, secret)
SELECT a, b, 'x', 'https://host-' || n || '/', '{meeting.created}', 'active', 0, 'x', at, 'x' FROM many;
INSERT INTO events SELECT a, b, 'webhook.test', 'x', at FROM many;
INSERT INTO deliveries
    (account_id, id, endpoint_id, event_id, event_kind, status, created_at, due_at, held_at, is_throttled,
    lease_token, lease_host)
SELECT a, CASE state WHEN 'succeeded' THEN b ELSE c END, b, b, 'webhook.test', split_part(state, '-', 1), at,
    CASE WHEN state LIKE 'pending%%' THEN at END, CASE state WHEN 'held' THEN at END,
    state = 'pending-throttled',
    CASE state WHEN 'pending-claimed' THEN c END, CASE state WHEN 'pending-claimed' THEN 'host-' || n END
FROM (SELECT *, CASE WHEN is_rare
        THEN (ARRAY['pending', 'held', 'pending-throttled', 'pending-claimed'])[1 + n / 100 %% 4]
        ELSE 'succeeded' END AS state FROM many) AS many;
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms)
SELECT a, b, 1, at, 1 FROM many;
INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, created_at)
SELECT a, 'x', 'x', true, at FROM many;
INSERT INTO api_requests (id, account_id, api_key_id, at, method, path, status, duration_ms)
SELECT b, a, c, at, 'GET', '/me', 200 + n %% 3 * 100, 1 FROM many;
INSERT INTO provider_events (id, provider, digest, kind, payload, received_at, due_at)
SELECT a, 'zoom', sha256(n::text::bytea), 'meeting_ended', CASE WHEN is_rare THEN 'x'::bytea END, at,
    CASE WHEN is_rare THEN at END FROM many;
INSERT INTO recordings (account_id, id, meeting_id, status, files, recorded_at, created_at, provider,
    provider_meeting_id, expires_at, due_at)
SELECT a, c, b, CASE WHEN is_rare THEN 'available' ELSE 'expired' END, 'x', at, at, 'zoom', 'x', at,
    CASE WHEN is_rare THEN at END FROM many;
INSERT INTO notes (account_id, id, api_key_id, recording_id, meeting_id, language, status, step, duration_s,
    created_at, hold_id, due_at)
SELECT a, b, c, c, b, 'id', CASE WHEN is_rare THEN 'queued' ELSE 'completed' END, 'fetch', 60, at,
    CASE WHEN is_rare THEN c END, CASE WHEN is_rare THEN at END FROM many;
INSERT INTO transcript_chunks SELECT a, c, 'x', 0, 'x' FROM many;
INSERT INTO mails
    (id, account_id, recipient, kind, language, content, created_at, due_at, attempts_made, sent_at)
SELECT b, a, n || '@example.com', 'low_credits', 'id', CASE WHEN is_rare THEN 'x'::bytea END, at,
    CASE WHEN is_rare THEN at END, 0, CASE WHEN NOT is_rare THEN at END FROM many;
INSERT INTO payments (id, account_id, gateway, credits, price, tax, currency, created_at, expires_at, status,
    method, ended_at, next_look_at, looks, doubt)
SELECT b, a, 'x', 1, 1, 0, 'IDR', at, at, CASE WHEN is_rare THEN 'pending' ELSE 'paid' END, 'x',
    CASE WHEN NOT is_rare THEN at END, CASE WHEN is_rare THEN at END, 0,
    CASE WHEN is_rare THEN 'wrong_amount' END FROM many;
INSERT INTO payment_messages SELECT b, 1, at, 'look', 'x' FROM many;
INSERT INTO payment_refunds SELECT b, a, 1, 1, 'x', at FROM many;
INSERT INTO billing_details SELECT a, 'x', 'x', 'x' FROM many;
INSERT INTO receipts SELECT b, a, 2026, n, at, 'x', 'x', 'x', 'x', 'x', 'x' FROM many;
INSERT INTO rate_counters SELECT n %% 60, a, 'read', 1 FROM many;
DROP TABLE many;
"""

TYPES = {
    "uuid": (
        "account_id",
        "id",
        "api_key_id",
        "key_id",
        "meeting_id",
        "payment_id",
        "host_id",
        "token",
        "after",
        "hold_id",
        "oldest",
        "newest",
        "oldest_event",
        "newest_event",
        "events_since",
    ),
    "timestamptz": ("at", "now", "start_at", "end_at", "latest", "from", "to", "made_from", "made_before"),
    "interval": ("length",),
    "bigint": (
        "limit",
        "window",
        "total",
        "low",
        "account_low_threshold",
        "per_endpoint",
        "per_failing",
        "per_account",
        "per_host",
        "seats",
    ),
    "float8": ("per_host_per_s", "per_host_of_account", "lease_s", "seconds", "every_s", "again_s"),
    "boolean": ("is_over", "is_refund", "needs_host", "counts_creation"),
    "date": ("today", "day", "first_day", "last_day"),
    "tsquery": ("words",),
    "text": ("status", "state", "class", "host", "key", "operation"),
}
TYPE_OF = {name: type_ for type_, names in TYPES.items() for name in names}

READS_ALL = {
    "money.verification": "`credits verify` reads the whole ledger",
    "roles": "reads the server's catalog",
    "connection": "reads the server's catalog",
    "partitions": "reads the server's catalog",
    "server_activity": "reads what the server reports of itself",
}
"""Modules whose statements read all by their purpose."""

SMALL = {
    "hosts", "rate_counters", "operators", "operator_tokens", "ledger_verification", "retention_progress",
    "receipt_years", "schema_migrations", "pg_database", "pg_class", "pg_trigger",
}  # fmt: skip
"""Tables that do not grow: operators fill four of them, one has counts of ten minutes,
two have one row or two, one has a row for each year, one for each step, and three are the server's."""

LISTS_ALL = {
    "requests.registry.list_keys", "webhooks.reads.find_by_url", "console.liability",
    "payments.reads.list_income",
}  # fmt: skip
"""`key list` of all accounts, the inbox of `meetcore dev`, which looks for a URL in all of them, and reports
of all balances and of all income."""


@pytest.fixture(scope="module")
def filled(postgres_server_url: str) -> Iterator[psycopg.Connection]:
    with (
        servers.migrated_database(postgres_server_url) as url,
        psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection,
    ):
        connection.execute("SET session_replication_role = replica")
        connection.execute(_FILL.encode(), {"rows": ROWS})
        # Every row is looked at: what a sample happens to have may change a plan.
        connection.execute("RESET session_replication_role; SET default_statistics_target = 200; ANALYZE")
        connection.execute("SET plan_cache_mode = force_generic_plan; SET timezone = 'UTC'")
        yield connection


def plan(connection: psycopg.Connection, text: str) -> Mapping[str, Any]:
    """The generic plan of a statement."""
    names: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    numbered_text = re.sub(r"%\((\w+)\)s", numbered, text).replace("%%", "%")
    types = ", ".join(TYPE_OF.get(name, "unknown") for name in names)
    connection.execute(f"PREPARE stated {f'({types})' if names else ''} AS {numbered_text}".encode())
    try:
        values = f"({', '.join(['NULL'] * len(names))})" if names else ""
        row = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE stated {values}".encode()).fetchone()
        assert row is not None
        found: Mapping[str, Any] = row[0][0]["Plan"]
        return found
    finally:
        connection.execute("DEALLOCATE stated")


def scanned(node: Mapping[str, Any]) -> Iterator[str]:
    """The tables that a plan reads from end to end."""
    if node["Node Type"] == "Seq Scan":
        yield node["Relation Name"]
    for below in node.get("Plans", ()):
        yield from scanned(below)


STATEMENTS = [each for each in statements() if each.module not in READS_ALL]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda it: f"{it.module}.{it.name}")
def test_no_growing_table_is_read_from_end_to_end(filled: psycopg.Connection, statement: Statement) -> None:
    scans = set(scanned(plan(filled, statement.text))) - SMALL
    assert scans == set() or f"{statement.module}.{statement.name}" in LISTS_ALL


SHARED = {
    "bound", "busy", "claim", "closed", "delivery", "done", "elsewhere", "entry", "event",
    "funds", "locked", "nearby", "open_hosts", "prolonged", "reactivated", "taken", "transfer",
    "usage", "usage_with_hold",
}  # fmt: skip
"""Common table expressions that are written out in several statements."""


def expressions(text: str) -> Iterator[tuple[str, str]]:
    """The common table expressions of a statement: names and texts, white space apart."""
    for begins in re.finditer(r"(\w+) AS (?:MATERIALIZED )?\(", text):
        depth, end = 1, begins.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield begins[1], " ".join(text[begins.end() : end].split())


@pytest.mark.parametrize("name", sorted(SHARED))
def test_a_shared_expression_is_the_same_in_each_statement(name: str) -> None:
    texts = [text for each in STATEMENTS for own, text in expressions(each.text) if own == name]
    assert len(texts) > 1
    assert len(set(texts)) == 1, set(texts)


def test_each_statement_of_a_file_is_executed_by_its_module() -> None:
    folder = Path(adapter.__path__[0])
    files = [file.relative_to(folder) for file in folder.rglob("*.sql") if file.parent.name != "migrations"]
    assert len(files) > 10
    for file in files:
        module = importlib.import_module(".".join((adapter.__name__, *file.with_suffix("").parts)))
        used = re.findall(r'(?<!\w)SQL\["(\w+)"\]', Path(str(module.__file__)).read_text("utf-8"))
        assert set(module.SQL) == set(used), file


@pytest.mark.parametrize(
    ("name", "status", "event"),
    [
        ("release_one", DeliveryStatus.HELD, DeliveryEvent.RELEASE),
        ("release_all", DeliveryStatus.HELD, DeliveryEvent.RELEASE),
        ("recover", DeliveryStatus.FAILED, DeliveryEvent.RECOVER),
        ("recover", DeliveryStatus.EXPIRED, DeliveryEvent.RECOVER),
        ("expire", DeliveryStatus.HELD, DeliveryEvent.EXPIRE),
        ("give_up", DeliveryStatus.PENDING, DeliveryEvent.FAIL),
        ("save_endpoints", DeliveryStatus.PENDING, DeliveryEvent.HOLD),
        ("disable_at_hosts", DeliveryStatus.PENDING, DeliveryEvent.HOLD),
    ],
)
def test_a_statement_moves_deliveries_as_the_domain_does(
    name: str, status: DeliveryStatus, event: DeliveryEvent
) -> None:
    after = step(TRANSITIONS, status, event)
    assert f"UPDATE deliveries d SET status = '{after.value}'" in deliveries.SQL[name]
