"""Checks of the database, each on its own connection, so that none waits for another."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg
from psycopg.rows import dict_row

from meetcore.adapters.postgres import migrate, pool, pooler, roles, session
from meetcore.adapters.postgres.console import SQL
from meetcore.adapters.postgres.partitions import LAYOUT, count_ahead, gaps, layout_of
from meetcore.adapters.postgres.requests.sealed_values import COLUMNS
from meetcore.adapters.postgres.standby import MOST_LAG_S
from meetcore.adapters.postgres.webhooks.rows import endpoint_context
from meetcore.adapters.secrets import AesGcmCipher, keys_from_text
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.ports.figures import MOST_COUNTED, CheckResult, failed, ok, skipped, warning
from meetcore.ports.maintenance import FEW_AHEAD
from meetcore.ports.runtime import CipherRefused
from meetcore.ports.store import StoreFull, StoreLoginRefused, StoreSessionRefused, StoreUnavailable
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown

MAX_CLOCK_DIFFERENCE_S = 2.0
"""Seconds between this machine's clock, for expiries and caps, and the database's, for leases."""
CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 5_000
OLDEST_SERVER = 150_000
_OPTIONS = f"-c statement_timeout={STATEMENT_TIMEOUT_MS} " + " ".join(
    f"-c {name}={value}" for name, value in session.VALUES.items()
)

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
        pool.translated(),
        psycopg.connect(
            url or settings.require_database(),
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            # Behind a pooler the role has a limit of its own.
            options=None if settings.is_pooled else _OPTIONS,
            prepare_threshold=None,
            application_name=pool.application_name("doctor"),
            **session.ENCODING,
        ) as connection,
    ):
        if not settings.is_pooled:
            session.correct(connection)
        yield connection


def check_database(settings: Settings) -> CheckResult:
    """Reach the database and log in."""
    try:
        with _connected(settings) as connection:
            version = connection.info.server_version
            session.check_encoding(connection.pgconn)
    except (SettingsRefused, session.EncodingRefused) as error:
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
    try:
        lacking = migrate.missing(settings.require_database())
    except migrate.MigrationRefused as error:
        return failed(str(error))
    if not lacking:
        return ok("of this release")
    return failed(f"{len(lacking)} migrations of this release are missing: run `meetcore migrate`")


def _check_partitions(settings: Settings) -> CheckResult:
    with _connected(settings) as connection, connection.cursor(row_factory=dict_row) as cursor:
        layout = layout_of(cursor.execute(LAYOUT.encode()).fetchall())
        (may_alter,) = _row(
            connection, "SELECT pg_has_role(relowner, 'MEMBER') FROM pg_class WHERE oid = 'events'::regclass"
        )
    remedy = "have the owner of the tables run `meetcore partitions` every day"
    if may_alter or str(settings.database_direct_url):
        remedy = "start a worker, which makes them, or run `meetcore partitions`"
    if lacking := [table for table, partitions in layout.items() if gaps(partitions)]:
        return failed(
            f"a partition of {', '.join(lacking)} was taken out, and new rows are refused: {remedy}"
        )
    ahead = count_ahead(layout, datetime.now(UTC))
    return ok(f"{ahead} ahead") if ahead >= FEW_AHEAD else warning(f"{ahead} ahead; no row is lost: {remedy}")


def _check_meetings(settings: Settings) -> CheckResult:
    with _connected(settings) as connection:
        running = _count(connection, "running_over")
    if not running:
        return ok("none runs beyond its end")
    return warning(
        f"{running} are over, and the provider has not been able to end them: their hosts stay reserved. See "
        "whether the provider answers, and whether it is the one that they were made at"
    )


def _check_role(settings: Settings) -> CheckResult:
    with _connected(settings) as connection:
        faults = [*_setting_faults(connection, _OF_ROLE), *roles.role_faults(connection)]
        warnings = [*roles.role_warnings(connection), *roles.activity_warnings(connection)]
    if faults:
        return failed("; ".join(faults))
    return warning("; ".join(warnings)) if warnings else ok("has what it needs, and cannot change the ledger")


def _check_pooler(settings: Settings) -> CheckResult:
    check_settings = pooler.check_role_settings if settings.is_pooled else pooler.check_sent_settings
    try:
        check_settings(settings.require_database(), settings.database_timeout_s)
    except pooler.MissingSettings as error:
        return failed(str(error))
    if settings.is_pooled:
        return ok("the role has what each session needs")
    others = pooler.other_values(settings.require_database())
    found = ", ".join(f"{name} is {value}" for name, value in others.items())
    passed_over = f"; {found} by itself, and changes nothing: each session asks for its own" if found else ""
    return ok(f"none set, and none is noticed{passed_over}")


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
    if lag_s is None or float(str(lag_s)) > MOST_LAG_S:
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
    """Look for values that are not under the first key; large tables may exceed the time limit."""
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
    """Return ids of keys that are not among these, one for each column that has a value under one."""
    rows = [
        connection.execute(column.find_other.encode(), {"keys": list(keys)}).fetchone() for column in COLUMNS
    ]
    return sorted({bytes(row[0]).hex() for row in rows if row is not None})


def _row(connection: psycopg.Connection, statement: str, *parameters: object) -> tuple[object, ...]:
    row = connection.execute(statement.encode(), parameters or None).fetchone()
    assert row is not None
    return row


def _count(connection: psycopg.Connection, name: str) -> int:
    """Return a figure of the console, by the name of its statement."""
    row = connection.execute(SQL[name].encode(), {"most": MOST_COUNTED}).fetchone()
    assert row is not None
    return int(row[0])


def _check_recordings(settings: Settings) -> CheckResult:
    with _connected(settings) as connection:
        count = _count(connection, "not_removed")
    if not count:
        return ok("the video provider keeps none of those that were deleted")
    return failed(
        f"{count} whose files the video provider has not deleted: see `recording not worked on` in the log "
        "and the check of the provider; give the application the scopes to delete, or delete them there"
    )


MOST_USERS = 20
"""Licensed users whose settings are read: each is a request to the provider."""
_SETTINGS_S = 3.0


def _check_hosts(settings: Settings) -> CheckResult:
    from meetcore.adapters.zoom import account
    from meetcore.composition.providers import zoom_access

    if settings.provider != "zoom":
        return ok(f"{settings.provider} has no settings of licensed users")
    with _connected(settings) as connection:
        statement = "SELECT provider_user_id FROM hosts WHERE is_active ORDER BY uses, id LIMIT %s"
        users = [str(user) for (user,) in connection.execute(statement.encode(), (MOST_USERS,)).fetchall()]
    if not users:
        return warning("there is none: add each licensed user with `meetcore host add`")
    try:
        found = asyncio.run(
            account.read_settings(zoom_access(settings), users, lambda: datetime.now(UTC), _SETTINGS_S)
        )
    except (ProviderRefused, ProviderUnknown):
        return warning(
            "zoom does not tell their settings: see the check of the provider, and that they exist"
        )
    if faults := account.setting_faults(found, settings.recording_retention_days):
        return warning(f"set at zoom what recordings, notes and guests need: {'; '.join(faults)}")
    return ok(f"{len(found)} have the settings that recordings, notes and guests need")


DATABASE_CHECKS: dict[str, Callable[[Settings], CheckResult]] = {
    "writable": _check_writable,
    "schema": _check_schema,
    "durability": _check_durability,
    "partitions": _check_partitions,
    "role": _check_role,
    "meetings": _check_meetings,
    "pooler": _check_pooler,
    "standby": _check_standby,
    "clock": _check_clock,
    "sealed": _check_sealed,
    "recordings": _check_recordings,
    "hosts": _check_hosts,
}
"""The checks of a database that is reached."""
