"""The reason why a database is unavailable, by the server's message."""

import psycopg
import pytest
from psycopg_pool import PoolTimeout

from meetcore.adapters.postgres.pool import kind_of, translated
from meetcore.ports.store import StoreFull, StoreLoginRefused, StoreUnavailable

LEAD = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '


@pytest.mark.parametrize(("message", "expected"), [
    ("FATAL:  sorry, too many clients already", StoreFull),
    ('FATAL:  too many connections for role "meetcore"', StoreFull),
    ('FATAL:  too many connections for database "meetcore"', StoreFull),
    ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", StoreFull),
    ('FATAL:  password authentication failed for user "meetcore"', StoreLoginRefused),
    ("fe_sendauth: no password supplied", StoreLoginRefused),
    ('FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "u", database "d"', StoreLoginRefused),
    ('FATAL:  role "meetcore" does not exist', StoreLoginRefused),
    ('FATAL:  role "meetcore" is not permitted to log in', StoreLoginRefused),
    ('FATAL:  database "meetcore" does not exist', StoreLoginRefused),
    ('FATAL:  permission denied for database "meetcore"', StoreLoginRefused),
    ("FATAL:  the database system is starting up", StoreUnavailable),
    ("Connection refused", StoreUnavailable),
    ("timeout expired", StoreUnavailable),
])  # fmt: skip
def test_the_reason_is_reported_without_the_address(message: str, expected: type[StoreUnavailable]) -> None:
    with pytest.raises(StoreUnavailable) as caught, translated():
        raise psycopg.OperationalError(LEAD + message)
    assert type(caught.value) is expected
    for hidden in ("10.0.0", "5432", "meetcore"):
        assert hidden not in str(caught.value)
    assert isinstance(caught.value.__cause__, psycopg.OperationalError)


@pytest.mark.parametrize(("error", "kind"), [
    (psycopg.OperationalError(f"{LEAD}FATAL:  sorry, too many clients already"), "full"),
    (psycopg.OperationalError(f"{LEAD}fe_sendauth: no password supplied"), "login"),
    (psycopg.OperationalError(f"{LEAD}Connection refused"), "away"),
    (PoolTimeout("no connection in time"), "pool"),
    (psycopg.errors.QueryCanceled("statement timeout"), "timeout"),
    (psycopg.errors.AdminShutdown("terminating connection"), "lost"),
    (psycopg.errors.DiskFull("could not extend file"), "disk_full"),
    (psycopg.errors.ReadOnlySqlTransaction("read only"), "read_only"),
    (psycopg.errors.UndefinedTable("no such table"), None),
    (ValueError("a bug"), None),
])  # fmt: skip
def test_the_kind_for_metrics_is_one_of_a_few(error: Exception, kind: str | None) -> None:
    assert kind_of(error) == kind
