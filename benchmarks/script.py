"""From a recorded creation to a script for pgbench.

What belongs to one creation gets an expression: the account and its key come from a random number, ids
and texts that hold one from a counter, the start is random, host and version are what the statements before
found. All else is bound as it was recorded. A new unique column that is missed here stops pgbench with a
duplicate.

A statement that names the account's version reserves or settles if the account was not changed meanwhile;
what was recorded after it is the other way, which the script too takes only where the first did not work.
"""

import re
from datetime import date, datetime
from typing import Any
from uuid import UUID

from attrs import define, field, frozen

from benchmarks.recording import VERSIONS, Creation, Statement
from benchmarks.seeds import DIGEST_LEAD, ID_LEAD

__all__ = ["Script", "make_script"]

# What statements find for later ones, by the column in which they read it.
_FOUND = {"host_id": "host_id"} | dict.fromkeys(VERSIONS, "version")
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")
_HEAD = r"""
\set a 9000000000000000 + random(1, :accounts)
\set n :n + 1
\set serial :run * 1000000000000 + :n * 100 + :client_id
\set start_s :first_s + 60 * random(0, 500000)
\set end_s :start_s + 3600
"""
# Sixteen digits of an id begin with two that tell it from the other ids of a creation; the accounts' with 90.
FIRST_ID = 10
MAX_IDS = 80
_SHARED = ("hold_id", "lease_token")
_TYPES = {
    bool: "boolean",
    int: "bigint",
    float: "float8",
    bytes: "bytea",
    datetime: "timestamptz",
    date: "date",
}


@frozen
class Script:
    """The script, and the variables that stay the same."""

    text: str
    constants: dict[str, str]


@define
class _Translator:
    creation: Creation
    host_id: UUID
    start_at: datetime
    end_at: datetime
    ids: dict[UUID, str] = field(factory=dict)
    constants: dict[str, str] = field(factory=dict)
    names: dict[str, str] = field(factory=dict)
    found: dict[str, str] = field(factory=dict)

    def expression(self, name: str, value: Any) -> str:
        """Return the script's expression for a parameter."""
        match value:
            case None:
                return "NULL"
            case UUID():
                return self._id(value)
            case str():
                return self._text(value)
            case bytes() if value == self.creation.digest:
                return f"({self._constant(chr(92) + 'x' + DIGEST_LEAD)}::text || :a::text)::bytea"
            case datetime() if value in (self.start_at, self.end_at):
                return f"to_timestamp({':start_s' if value == self.start_at else ':end_s'}::float8)"
            case int() if name == "entry_number":
                return ":serial::bigint"
            case int() if name == "version":
                return f"{self.found[name]}::bigint"
            case list() if any(isinstance(each, UUID) for each in value):
                return f"ARRAY[{', '.join(self.expression(name, each) for each in value)}]"
            case list():
                return self._constant("{" + ",".join(_element(each) for each in value) + "}")
            case _:
                return f"{self._constant(_literal(value))}::{_TYPES[type(value)]}"

    def _id(self, value: UUID) -> str:
        if value == self.host_id:
            return f"{self.found.get('host_id', 'NULL')}::uuid"
        is_account = value in (self.creation.account_id, self.creation.key_id)
        digits = ":a" if is_account else self._digits(value)
        return f"({self._constant(ID_LEAD)}::text || {digits}::text)::uuid"

    def _digits(self, value: UUID) -> str:
        return ":" + self.ids.setdefault(value, f"id{len(self.ids) + 1}")

    def _text(self, value: str) -> str:
        """A text; one that holds an id of this creation keeps its length and gets other digits."""
        key = self.creation.idempotency_key
        for known in [*self.ids, key]:
            if str(known) == value and known != key:
                return f"{self._id(known)}::text"
            if str(known) in value:
                lead = value.replace(str(known), "-" * 20)
                return f"({self._constant(lead)}::text || {self._digits(known)}::text)"
        return f"{self._constant(value)}::text"

    def _constant(self, text: str) -> str:
        name = self.names.setdefault(text, f"c{len(self.names) + 1}")
        self.constants[name] = text
        return f":{name}"

    def body(self) -> str:
        """Every statement in its order."""
        lines: list[str] = []
        is_settling = False
        for place, statement in enumerate(self.creation.statements):
            text = self._statement(statement)
            found = {_FOUND[column]: column for column in statement.columns if column in _FOUND}
            is_try = "version" in statement.parameters and not is_settling
            if is_try and "token" not in statement.parameters:
                lines += ["\\set r_version -1", text, "\\aset r_", "\\if :r_version < 0"]
                continue
            if is_try:
                lines += ["\\endif", "\\set due -1", text, "\\aset", "\\if :due < 0"]
                is_settling = True
                continue
            if set(statement.columns) == {"version", "host_id"}:  # reserved under the lock
                lines += [text, "\\aset r_"]
                self.found = {name: f":r_{column}" for name, column in found.items()}
                continue
            if found and self.found:
                # May find nothing: the host was taken between the two statements, and the service retries.
                lines += [f"\\set s{place}_version -1", text, f"\\aset s{place}_"]
            else:
                lines += [text, f"\\gset s{place}_"] if found else [f"{text};"]
            for name, column in found.items():
                if name != "host_id" or name not in self.found:
                    self.found[name] = f":s{place}_{column}"
        return "\n".join([*lines, "\\endif" if is_settling else "", ""])

    def _statement(self, statement: Statement) -> str:
        def put(match: re.Match[str]) -> str:
            return self.expression(match[1], statement.parameters[match[1]]) if match[1] else "%"

        return _PLACEHOLDER.sub(put, re.sub(r"--[^\n]*", "", statement.text)).strip()


def _literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if isinstance(value, date) else str(value)


def _element(value: Any) -> str:
    """An element of an array's literal. NULL is the one that has no quotes."""
    if value is None:
        return "NULL"
    text = _literal(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def make_script(creation: Creation) -> Script:
    """Translate a creation on a database of numbered ids (see `seeds.furnish_numbered`).

    Raises:
        LookupError: host or times were not sent, or there are too many ids.
    """
    sent = {name: value for each in creation.statements for name, value in each.parameters.items()}
    translator = _Translator(creation, sent["meeting_host_id"], sent["start_at"], sent["end_at"])
    shared: dict[str, str] = {}
    # Ids first: texts that were sent before an id was may hold it.
    for statement in creation.statements:
        for name, value in statement.parameters.items():
            if isinstance(value, UUID):
                translator.expression("", value)
                # Both ways of reserving have their own; what settles names one of them.
                if name in _SHARED:
                    translator.ids[value] = shared.setdefault(name, translator.ids[value])
    body = translator.body()
    if len(translator.ids) > MAX_IDS:
        raise LookupError(
            f"a creation has more than {MAX_IDS} ids: their leading digits run into the accounts'"
        )
    fresh = "".join(
        f"\\set {name} {place}00000000000000 + :serial\n"
        for place, name in enumerate(dict.fromkeys(translator.ids.values()), start=FIRST_ID)
    )
    return Script(_HEAD.lstrip() + fresh + body, translator.constants)
