"""Checks of the database: reachable, writable, its schema, our role, its clock, what is stored in it.

Each opens its own connection, so that none waits for another.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
from psycopg.rows import dict_row

from meetcore.adapters.postgres.audit_log import ENTRIES_LOOKED_AT, holds_addresses
from meetcore.adapters.postgres.endpoints.rows import endpoint_context
from meetcore.adapters.postgres.migrate import missing
from meetcore.adapters.postgres.migration_steps import MigrationRefused, load_migrations, schemas_of
from meetcore.adapters.postgres.partitions.layout import KEYS, LAYOUT, layout_of, layout_parameters
from meetcore.adapters.postgres.partitions.plan import gaps_of
from meetcore.adapters.postgres.pool import application_name, translated
from meetcore.adapters.postgres.pooler import MissingSettings, check_role_settings, check_sent_settings
from meetcore.adapters.postgres.roles import role_faults, role_warnings
from meetcore.adapters.postgres.sealed_values import COLUMNS
from meetcore.adapters.postgres.server_activity import activity_warnings
from meetcore.adapters.secrets import AesGcmCipher, keys_from_text
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.composition.doctor.report import CheckResult, failed, ok, skipped, warning
from meetcore.ports.cipher import CipherRefused
from meetcore.ports.partitions import FEW_AHEAD
from meetcore.ports.store import StoreFull, StoreLoginRefused, StoreSessionRefused, StoreUnavailable

MAX_CLOCK_DIFFERENCE_S = 2.0
"""Seconds between this machine's clock, for expiries and caps, and the database's, for leases."""
CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 5_000
OLDEST_SERVER = 150_000

# What the service relies on, by the name of the parameter: the value, or none where any but `off` will do.
_DURABLE = {
    "fsync": ("on", "a crash may lose money: set fsync = on"),
    "full_page_writes": ("on", "a crash may lose money: set full_page_writes = on"),
    "synchronous_commit": ("", "a crash may lose money: reset it for the role, the database or the server"),
}
_OF_ROLE = {
    "session_replication_role": ("origin", "the ledger's triggers are off: reset session_replication_role"),
    "default_transaction_isolation": ("read committed", "ALTER ROLE … RESET default_transaction_isolation"),
    "row_security": ("on", "ALTER ROLE … RESET row_security"),
}


@contextmanager
def _connected(settings: Settings, url: str = "") -> Iterator[psycopg.Connection]:
    with (
        translated(),
        psycopg.connect(
            url or settings.require_database(),
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            # Behind a pooler the role has a limit of its own.
            options=None if settings.is_pooled else f"-c statement_timeout={STATEMENT_TIMEOUT_MS}",
            prepare_threshold=None,
            application_name=application_name("doctor"),
        ) as connection,
    ):
        yield connection


def check_database(settings: Settings) -> CheckResult:
    """Reach the database and log in."""
    try:
        with _connected(settings) as connection:
            version = connection.info.server_version
    except SettingsRefused as error:
        return failed(str(error))
    except StoreFull:
        return failed("no connection is left: raise max_connections, or lower MEETCORE_DATABASE_POOL_SIZE")
    except StoreSessionRefused:
        return failed("a pooler refuses the settings of a session: set MEETCORE_DATABASE_POOLER=transaction")
    except StoreLoginRefused:
        return failed("the login is refused: check user, password and database in MEETCORE_DATABASE_URL")
    except StoreUnavailable:
        return failed("no answer: check MEETCORE_DATABASE_URL and that PostgreSQL runs")
    shown = f"PostgreSQL {version // 10_000}.{version % 10_000}"
    if version < OLDEST_SERVER:
        return failed(f"{shown} is too old: use 15 or newer")
    return ok(f"{shown} answers")


def _check_writable(settings: Settings) -> CheckResult:
    with _connected(settings) as connection:
        standby, read_only = _row(
            connection, "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'"
        )
    if standby:
        return failed("a standby: name the primary, or all hosts and target_session_attrs=read-write")
    if read_only:
        return failed(
            "read-only: reset default_transaction_read_only of the role, the database or the server"
        )
    return ok("takes writes")


def _check_schema(settings: Settings) -> CheckResult:
    runs_on = f"this release, which runs on migrations {schemas_of(load_migrations()).text}"
    try:
        lacking = missing(settings.require_database())
    except MigrationRefused as error:
        return failed(str(error))
    if not lacking:
        return ok(f"of {runs_on}")
    if all(step.is_optional for step in lacking):
        return warning(f"{len(lacking)} of {runs_on}, are to come: run `meetcore migrate`")
    return failed(f"{len(lacking)} of {runs_on}, are missing: run `meetcore migrate`")


def _check_partitions(settings: Settings) -> CheckResult:
    now = datetime.now(UTC)
    with _connected(settings) as connection, connection.cursor(row_factory=dict_row) as cursor:
        layout = layout_of(cursor.execute(LAYOUT.encode(), layout_parameters()).fetchall())
        (may_alter,) = _row(
            connection, "SELECT pg_has_role(relowner, 'MEMBER') FROM pg_class WHERE oid = 'events'::regclass"
        )
    ahead = layout.ahead(now)
    gaps = [gap for table in KEYS for gap in gaps_of(layout, table, now, settings.partition_rules)]
    proofs = [one.name for of_table in layout.partitions.values() for one in of_table if one.has_proof]
    remedy = _partitions_remedy(settings, may_alter=bool(may_alter))
    if proofs:
        return warning(
            f"{', '.join(proofs)} will refuse new rows, by what an interrupted round left there, "
            f"unless one runs now: {remedy}"
        )
    if gaps:
        names = ", ".join(gap.name for gap in gaps)
        return failed(f"new rows of the time of a missing partition are refused ({names}): {remedy}")
    if layout.problems:
        return warning("; ".join(layout.problems))
    if ahead < FEW_AHEAD:
        return warning(f"{ahead} ahead, and nothing is lost: {remedy}")
    kept = f"; kept outside of their tables: {', '.join(layout.kept)}" if layout.kept else ""
    return ok(f"{ahead} ahead{kept}")


def _partitions_remedy(settings: Settings, *, may_alter: bool) -> str:
    if settings.direct_database is None:
        return "set MEETCORE_DATABASE_DIRECT_URL: a pooler does not keep the session that makes them"
    if may_alter or str(settings.database_direct_url):
        return "start a worker, which makes them, or run `meetcore partitions`"
    return "the tables are another's, who must run `meetcore partitions` every day"


def _check_role(settings: Settings) -> CheckResult:
    with _connected(settings) as connection:
        faults = [*_setting_faults(connection, _OF_ROLE), *role_faults(connection)]
        warnings = [*role_warnings(connection), *activity_warnings(connection)]
    if faults:
        return failed("; ".join(faults))
    return warning("; ".join(warnings)) if warnings else ok("has what it needs, and cannot change the ledger")


def _check_pooler(settings: Settings) -> CheckResult:
    check_settings = check_role_settings if settings.is_pooled else check_sent_settings
    try:
        check_settings(settings.require_database(), settings.database_timeout_s)
    except MissingSettings as error:
        return failed(str(error))
    return ok(
        "the role has what each session needs" if settings.is_pooled else "none set, and none is noticed"
    )


def _check_standby(settings: Settings) -> CheckResult:
    url = str(settings.database_read_url)
    if not url:
        return ok("none set: the primary reads lists")
    try:
        with _connected(settings, url) as connection:
            is_standby, lag_s = _row(
                connection,
                """SELECT pg_is_in_recovery(),
                    extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())""",
            )
    except StoreUnavailable:
        return warning("no answer: check MEETCORE_DATABASE_READ_URL; until then the primary reads lists")
    if not is_standby:
        return warning("MEETCORE_DATABASE_READ_URL leads to no standby: the primary reads lists")
    if lag_s is None or float(str(lag_s)) > settings.database_read_lag_s:
        return warning("nothing new came lately: the primary reads lists where a write is older than that")
    return ok("follows")


def _check_durability(settings: Settings) -> CheckResult:
    with _connected(settings) as connection:
        faults = _setting_faults(connection, _DURABLE)
    return failed("; ".join(faults)) if faults else ok("what is committed stays")


def _setting_faults(connection: psycopg.Connection, expectations: dict[str, tuple[str, str]]) -> list[str]:
    faults = []
    for name, (expected, remedy) in expectations.items():
        (value,) = _row(connection, "SELECT current_setting(%s)", name)
        is_right = value == expected if expected else value != "off"
        if not is_right:
            faults.append(f"{name} is {value}: {remedy}")
    return faults


def _check_clock(settings: Settings) -> CheckResult:
    with _connected(settings) as connection:
        before, began = datetime.now(UTC), time.monotonic()
        there = _instant(connection)
        took_s = time.monotonic() - began
    # Its reading lies somewhere within the round trip.
    difference_s = (there - before).total_seconds()
    beyond_s = max(-difference_s, difference_s - took_s, 0.0)
    if beyond_s > MAX_CLOCK_DIFFERENCE_S:
        return failed(f"{beyond_s:.0f} s apart from the database's: keep both in step, with NTP or chrony")
    return ok("in step with the database's")


def _instant(connection: psycopg.Connection) -> datetime:
    (there,) = _row(connection, "SELECT clock_timestamp()")
    assert isinstance(there, datetime)
    return there


def _check_sealed(settings: Settings) -> CheckResult:
    try:
        keys = keys_from_text(str(settings.secrets_key))
    except ValueError:
        return skipped("see secrets")
    with _connected(settings) as connection:
        row = connection.execute(
            b"SELECT account_id, id, secret FROM webhook_endpoints ORDER BY account_id DESC, id DESC LIMIT 1"
        ).fetchone()
    try:
        if row is not None:
            AesGcmCipher(keys).open(bytes(row[2]), endpoint_context(row[0], row[1]))
    except CipherRefused:
        return failed(
            "what is stored does not open: put the key that it was encrypted with into MEETCORE_SECRETS_KEY, "
            "behind the present one"
        )
    return _check_keys(settings, AesGcmCipher(keys))


def _check_keys(settings: Settings, cipher: AesGcmCipher) -> CheckResult:
    """Look for values that are not under the first key; in large tables there may be no time for all."""
    try:
        with _connected(settings) as connection:
            unknown, old = (_others(connection, keys) for keys in (cipher.key_ids, cipher.key_ids[:1]))
    except StoreUnavailable:
        if len(cipher.key_ids) == 1:  # no value has to move to another key
            return ok("the newest webhook's secret opens")
        return warning("no time to look at every value: `meetcore secrets reseal --dry-run` counts them")
    if unknown:
        return failed(
            f"values are under keys that are not in MEETCORE_SECRETS_KEY: put back {', '.join(unknown)}"
        )
    if old:
        return warning("values are still under an old key: `meetcore secrets reseal`, then remove it")
    return ok("what is stored is under the first key of MEETCORE_SECRETS_KEY")


def _others(connection: psycopg.Connection, keys: Sequence[bytes]) -> list[str]:
    """The ids of keys that are not among these, one for each column that has a value under such a key."""
    rows = [
        connection.execute(column.find_other.encode(), {"keys": list(keys)}).fetchone() for column in COLUMNS
    ]
    return sorted({bytes(row[0]).hex() for row in rows if row is not None})


def _check_audit_log(settings: Settings) -> CheckResult:
    with _connected(settings) as connection:
        if holds_addresses(connection):
            return warning(
                "entries of an earlier release hold e-mail addresses, which an erasure leaves: once none of "
                "its processes runs, run the statements of docs/privacy.md as the owner of the tables"
            )
    return ok(f"no addresses of members in the oldest and the newest {ENTRIES_LOOKED_AT} entries")


def _row(connection: psycopg.Connection, statement: str, *parameters: object) -> tuple[object, ...]:
    row = connection.execute(statement.encode(), parameters or None).fetchone()
    assert row is not None
    return row


DATABASE_CHECKS: dict[str, Callable[[Settings], CheckResult]] = {
    "writable": _check_writable,
    "schema": _check_schema,
    "durability": _check_durability,
    "partitions": _check_partitions,
    "role": _check_role,
    "pooler": _check_pooler,
    "standby": _check_standby,
    "clock": _check_clock,
    "sealed": _check_sealed,
    "audit_log": _check_audit_log,
}
"""What is looked at once the database is reached."""
