"""The floor of `POST /meetings`: pgbench sends the SQL of one creation, without HTTP and without rules.

The statements are recorded from the service's own adapter, so that the floor follows its changes. In the
script of pgbench an account's key comes from a random number, what a statement returned is passed on as the
service does, other ids are new in each transaction, and the start is random. All else is bound as it was
recorded. A new unique column that is missed here stops pgbench with a duplicate. Each client has accounts of
its own: none waits for another's.
"""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import httpx
import psycopg
from attrs import define, field, frozen

from benchmarks.load import CLIENTS
from benchmarks.servers import Account, Place
from meetcore.adapters.http.api_app import ApiApp
from meetcore.adapters.postgres.connection import Connection
from meetcore.adapters.postgres.pool import make_pool
from meetcore.composition.application import Part
from meetcore.domain.requests.keys import digest

__all__ = ["find_pgbench", "prepared"]

_DIGEST = "a7" * 24
_NUMBER_DIGESTS = f"""UPDATE api_keys k
    SET digest = decode('{_DIGEST}' || lpad(n.number::text, 16, '0'), 'hex')
    FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS number FROM api_keys) AS n WHERE n.id = k.id"""
"""The keys' digests by number: what pgbench finds the caller of a request by."""
_HEAD = r"""
\set a :client_id + :clients * random(0, :accounts / :clients - 1)
\set n :n + 1
\set serial :run * 1000000000000 + :n * 100 + :client_id
\set start_s :first_s + 60 * random(0, 500000)
\set end_s :start_s + 3600
"""
_MADE = "SELECT count(*) FROM meetings WHERE status = 'scheduled'"
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")
_VERSIONS = ("version", "account_version")
_TYPES = {
    bool: "boolean", int: "bigint", float: "float8", bytes: "bytea", datetime: "timestamptz", date: "date",
}  # fmt: skip


@frozen
class Statement:
    """A statement as sent, and its first row."""

    text: str
    parameters: Mapping[str, Any]
    row: Mapping[str, Any]


async def _record(where: Place, account: Account, idempotency_key: UUID) -> list[Statement]:
    """Create one meeting through the API in this process, and record its statements."""
    start_at = datetime.now(UTC) + timedelta(days=100)
    wanted = {
        "title": "Weekly planning", "date": f"{start_at:%Y-%m-%d}", "start_time": "09:00",
        "pricing_tier_id": "standard-100", "mic_off": True,
    }  # fmt: skip
    headers = {"authorization": f"Bearer {account.key}", "idempotency-key": str(idempotency_key)}
    async with where.application(Part.API) as application:
        base_url = application.policy.base_url
        app = ApiApp(application.api, application.admit, application.runtime, base_url, lambda _: b"")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url) as client:
            with _listening() as statements:
                answer = await client.post("/api/v1/meetings", json=wanted, headers=headers)
    if answer.status_code != 201:
        raise RuntimeError(answer.text)
    return statements


@contextmanager
def _listening() -> Iterator[list[Statement]]:
    """Record what the adapter's connections send."""
    statements: list[Statement] = []
    execute, fetch, transaction = Connection.execute, Connection.fetch, Connection.transaction

    async def execute_and_note(self: Any, query: str, params: Any = None, **options: Any) -> Any:
        statements.append(Statement(query, params or {}, {}))
        return await execute(self, query, params, **options)

    async def fetch_and_note(self: Any, query: str, params: Any) -> Any:
        rows = await fetch(self, query, params)
        statements.append(Statement(query, params, rows[0] if rows else {}))
        return rows

    @asynccontextmanager
    async def transaction_and_note(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        statements.append(Statement("BEGIN", {}, {}))
        async with transaction(self, *args, **options) as opened:
            yield opened
        statements.append(Statement("COMMIT", {}, {}))

    with (
        patch.object(Connection, "execute", execute_and_note),
        patch.object(Connection, "fetch", fetch_and_note),
        patch.object(Connection, "transaction", transaction_and_note),
    ):
        yield statements


@define
class _Script:
    """Statements on their way to a script: `known` are expressions for ids, by what was recorded."""

    digest: bytes
    start_at: datetime
    end_at: datetime
    known: dict[UUID, str] = field(factory=dict)
    fresh: list[str] = field(factory=list)
    version: str = "NULL"
    constants: dict[str, str] = field(factory=dict)

    def lines(self, statements: list[Statement]) -> Iterator[str]:
        """Every statement in its order; what it returns is known to those after it."""
        for number, each in enumerate(statements):
            text = "".join(self._filled(each)).strip()
            used = self._remember(number, each.row)
            if used:
                yield from (f"\\set s{number}_{name} 0" for name in used)
                yield f"{text}\n\\aset s{number}_"
            else:
                yield f"{text};"

    def _filled(self, statement: Statement) -> Iterator[str]:
        """The parts of a statement, its placeholders replaced."""
        text, end = re.sub(r"--[^\n]*", "", statement.text), 0
        for found in _PLACEHOLDER.finditer(text):
            yield text[end : found.start()]
            yield self._value(found[1], statement.parameters[found[1]]) if found[1] else "%"
            end = found.end()
        yield text[end:]

    def _remember(self, number: int, row: Mapping[str, Any]) -> list[str]:
        used = []
        for name, value in row.items():
            if isinstance(value, UUID) and value not in self.known:
                self.known[value] = f":s{number}_{name}::uuid"
                used.append(name)
            elif name in _VERSIONS:
                self.version = f":s{number}_{name}::bigint"
                used.append(name)
        return used

    def _value(self, name: str, value: Any) -> str:
        """The script's expression for a parameter."""
        match value:
            case None:
                return "NULL"
            case UUID():
                return self._id(value)
            case str():
                return self._text(value)
            case bytes() if value == self.digest:
                return f"decode({self._constant(_DIGEST)}::text || lpad((:a)::text, 16, '0'), 'hex')"
            case datetime() if value in (self.start_at, self.end_at):
                return f"to_timestamp({':start_s' if value == self.start_at else ':end_s'}::float8)"
            case int() if name == "entry_number":
                return ":serial::bigint"
            case int() if name == "version":
                return self.version
            case list():
                if any(isinstance(each, UUID) for each in value):
                    return f"ARRAY[{', '.join(self._value(name, each) for each in value)}]"
                return self._constant("{" + ",".join(_element(each) for each in value) + "}")
            case _:
                return f"{self._constant(_literal(value))}::{_TYPES[type(value)]}"

    def _id(self, value: UUID) -> str:
        if value not in self.known:
            # Its last sixteen digits end with the serial number and begin with two of its own.
            name = f"id{len(self.fresh)}"
            self.fresh.append(f"\\set {name} {len(self.fresh) + 10}00000000000000 + :serial")
            self.known[value] = f"({self._constant(value.hex[:16])}::text || (:{name})::text)::uuid"
        return self.known[value]

    def _text(self, value: str) -> str:
        """A text; an id in it is that of the transaction."""
        for known in self.known:
            if str(known) in value:
                before, _, after = value.partition(str(known))
                parts = [f"{self._constant(each)}::text" for each in (before, after) if each]
                parts.insert(bool(before), f"{self.known[known]}::text")
                return f"({' || '.join(parts)})"
        return f"{self._constant(value)}::text"

    def _constant(self, text: str) -> str:
        names = {known: name for name, known in self.constants.items()}
        name = names.get(text, f"c{len(self.constants)}")
        self.constants[name] = text
        return f":{name}"


def _literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if isinstance(value, date) else str(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    text = _literal(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _script(
    statements: list[Statement], account: Account, idempotency_key: UUID
) -> tuple[str, dict[str, str]]:
    """The script and the variables that stay the same."""
    sent = {name: value for each in statements for name, value in each.parameters.items()}
    script = _Script(digest(account.key), sent["start_at"], sent["end_at"])
    script._id(idempotency_key)
    returned = {value for each in statements for value in each.row.values() if isinstance(value, UUID)}
    # Texts that were sent before an id was may hold it.
    for value in sent.values():
        if isinstance(value, UUID) and value not in returned:
            script._id(value)
    body = "\n".join(script.lines(statements))
    return "\n".join([_HEAD.strip(), *script.fresh, body, ""]), script.constants


def find_pgbench() -> str | None:
    """The program, on the path or where Debian keeps it."""
    if found := shutil.which("pgbench"):
        return found
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), key=lambda path: int(path.parts[-3]))
    return str(places[-1]) if places else None


@contextmanager
def prepared(where: Place, accounts: list[Account]) -> Iterator[Callable[[float], float] | None]:
    """Yield a function that makes meetings for some seconds and returns how many a second; `None` without
    pgbench."""
    program = find_pgbench()
    if program is None:
        yield None
        return
    key = uuid4()
    text, constants = _script(asyncio.run(_record(where, accounts[0], key)), accounts[0], key)
    where.execute(_NUMBER_DIGESTS, "VACUUM ANALYZE")
    settings: Any = make_pool(where.database_url, max_size=1).kwargs
    runs = 0
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(text)
        file.flush()

        def run(seconds: float) -> float:
            nonlocal runs
            runs += 1
            variables = constants | {
                "clients": str(CLIENTS), "accounts": str(len(accounts)), "n": "0", "run": str(runs),
                "first_s": str(int(time.time()) + 172_800),
            }  # fmt: skip
            options = [word for name, value in variables.items() for word in ("-D", f"{name}={value}")]
            command = [program, "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-f", file.name]
            return _run(
                [*command, "-T", str(max(1, round(seconds))), *options, where.database_url],
                settings["options"],
                where,
            )

        yield run


def _run(command: list[str], session_options: str, where: Place) -> float:
    """Meetings made in a second.

    Raises:
        RuntimeError: a transaction failed, or too many made no meeting (a few find their host taken).
    """
    with psycopg.connect(where.database_url, autocommit=True) as connection:

        def made() -> int:
            row = connection.execute(_MADE).fetchone()
            return 0 if row is None else int(row[0])

        before = made()
        done = subprocess.run(
            command, env=os.environ | {"PGOPTIONS": session_options},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        rate = re.search(r"tps = ([\d.]+)", done.stdout)
        processed = re.search(r"actually processed: (\d+)", done.stdout)
        if done.returncode or rate is None or processed is None:
            raise RuntimeError(done.stderr[-2000:] + done.stdout[-500:])
        share = (made() - before) / int(processed[1])
    if share < 0.98:
        raise RuntimeError(f"{share:.0%} of the transactions made a meeting: the script leaves work undone")
    return float(rate[1]) * share
