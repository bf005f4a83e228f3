"""From a recorded creation to a script for pgbench.

What belongs to one creation gets an expression: the account and its key come from a random number, ids and
texts that hold one from a counter, the start is random, the host is the one that the read found. All else is
bound as it was recorded. A new unique column that is missed here stops pgbench with a duplicate.
"""

import re
from datetime import date, datetime
from typing import Any
from uuid import UUID

from attrs import define, field, frozen

from benchmarks.house import DIGEST_LEAD, ID_LEAD
from benchmarks.recording import Creation, Statement

__all__ = ["Script", "make_script"]

_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")
_HEAD = r"""
\set a 9000000000000000 + random(1, :accounts)
\set n :n + 1
\set serial :run * 1000000000000 + :n * 100 + :client_id
\set start_s :first_s + 60 * random(0, 500000)
\set end_s :start_s + 3600
"""
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

    def expression(self, name: str, value: Any) -> str:
        """What stands for a parameter in the script."""
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
            case int() if name == "number":
                return ":serial::bigint"
            case list() if value and isinstance(value[0], UUID):
                return f"ARRAY[{', '.join(self._id(each) for each in value)}]"
            case list():
                return self._constant(
                    "{" + ",".join(f'"{_literal(each, in_array=True)}"' for each in value) + "}"
                )
            case _:
                return f"{self._constant(_literal(value))}::{_TYPES[type(value)]}"

    def _id(self, value: UUID) -> str:
        if value == self.host_id:
            return ":found_host_id::uuid"
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

    def statement(self, told: Statement, *, finds_host: bool) -> str:
        def put(match: re.Match[str]) -> str:
            return self.expression(match[1], told.parameters[match[1]]) if match[1] else "%"

        text = _PLACEHOLDER.sub(put, re.sub(r"--[^\n]*", "", told.text)).strip()
        return f"{text}\n\\gset found_\n" if finds_host else f"{text};\n"


def _literal(value: Any, *, in_array: bool = False) -> str:
    if isinstance(value, bytes):
        return ("\\\\x" if in_array else "\\x") + value.hex()
    return value.isoformat() if isinstance(value, date) else str(value)


def make_script(creation: Creation) -> Script:
    """Translate a creation on a house of numbered ids (see `house.furnish_numbered`).

    Raises:
        LookupError: no statement found a host and saved it, or the meeting's times were not sent.
    """
    everything = {name: value for each in creation.statements for name, value in each.parameters.items()}
    translator = _Translator(creation, everything["host_id"], everything["start_at"], everything["end_at"])
    # Ids first: texts that were sent before an id was may hold it.
    for told in creation.statements:
        for value in told.parameters.values():
            if isinstance(value, UUID):
                translator.expression("", value)
    finder = next(place for place, told in enumerate(creation.statements) if "host_id" in told.columns)
    body = "".join(
        translator.statement(told, finds_host=place == finder)
        for place, told in enumerate(creation.statements)
    )
    fresh = "".join(
        f"\\set {name} {place}000000000000000 + :serial\n"
        for place, name in enumerate(translator.ids.values(), start=1)
    )
    return Script(_HEAD.lstrip() + fresh + body, translator.constants)
