"""A table's columns, declared once for each record: SELECT and INSERT lists, parameters and records follow.

A field is the column of its name. In a row, and among the parameters, it has the record's prefix, so that several
records share a row: `Columns(Note, "n", "note_")` reads `n.status AS note_status`. The account's id is the same in all
of them and has no prefix.
"""

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum, StrEnum
from operator import attrgetter, itemgetter
from string import Formatter
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from attrs import frozen

from meetcore.ports.runtime import Cipher, CipherRefused

R = TypeVar("R")
Row = dict[str, Any]

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_SETS: Final[Mapping[str, type[StrEnum]]] = MappingProxyType({})
_WIDTH = 110


def utc(at: datetime) -> datetime:
    """Convert an instant to UTC, in which the domain has it."""
    return at if at.tzinfo is UTC else at.astimezone(UTC)


def seal_text(cipher: Cipher, text: str | None, context: str) -> bytes | None:
    """Seal a text that may be absent."""
    return None if text is None else cipher.seal(text.encode(), context)


def open_text(cipher: Cipher, sealed: bytes | None, context: str) -> str | None:
    """Open a text that may be absent."""
    return None if sealed is None else cipher.open(sealed, context).decode()


def readable(cipher: Cipher, sealed: bytes | None, context: str) -> str | None:
    """Open a text of a record; `None`, logged, where it does not open: other records are unaffected."""
    try:
        return open_text(cipher, sealed, context)
    except CipherRefused as error:
        import structlog  # rarely, and `meetcore.adapters.system` has to be the first to import it

        log = structlog.get_logger("meetcore.postgres")
        # No traceback (TRY400): a page of a list can hold a hundred of them, all alike.
        log.error("value does not open", context=context, cause=str(error))  # noqa: TRY400
        return None


@frozen
class _Column:
    field: str
    name: str
    key: str
    is_nullable: bool
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


class Columns(Generic[R]):
    """The columns that hold a record.

    Args:
        record: an attrs class.
        alias: the table's alias in statements.
        prefix: what a column's name begins with in rows and parameters.
        renamed: the columns of fields that have another name.
        nested: what the columns' names begin with, for fields that are records themselves.
        sealed: the contexts, formats of the record's fields, of texts that are encrypted.
        without: fields that these columns do not hold.
        sets: the enums of fields whose own type is any `StrEnum`.
        begins: what the columns' names begin with in the table.
    """

    def __init__(
        self, record: type[R], alias: str, prefix: str, *, renamed: Mapping[str, str] = _NONE,
        nested: Mapping[str, str] = _NONE, sealed: Mapping[str, str] = _NONE, without: Collection[str] = (),
        sets: Mapping[str, type[StrEnum]] = _NO_SETS, begins: str = "",
    ) -> None:  # fmt: skip
        self._record = record
        self._nested: dict[str, Columns[Any]] = {}
        self._own: list[_Column] = []
        for name, type_ in get_type_hints(record.__init__).items():
            if name in nested:
                inner = begins + nested[name]
                self._nested[name] = Columns(type_, alias, prefix + nested[name], begins=inner)
            elif name != "return" and name not in without:
                column = begins + renamed.get(name, name)
                key = name if name == "account_id" else prefix + renamed.get(name, name)
                self._own.append(
                    _Column(
                        name, column, key, NoneType in get_args(type_), *_conversions(type_, sets.get(name))
                    )
                )
        # Read for each row of a list: without a loop over the columns that need no conversion.
        self._fields, self._keys = (
            tuple(each.field for each in self._own),
            tuple(each.key for each in self._own),
        )
        self._of_row, self._of_record = _getter(itemgetter, self._keys), _getter(attrgetter, self._fields)
        converted = [each for each in self._own if each.read is not _same]
        self._readers = [(each.field, each.read) for each in converted]
        self._writers = [(each.key, each.write) for each in converted]
        self._sealed = [(each, sealed[each.field]) for each in self._own if each.field in sealed]
        parts = (part for template in sealed.values() for _, part, *_ in Formatter().parse(template))
        self._context_fields = tuple(dict.fromkeys(part for part in parts if part))
        found = [*self._own, *(each for nested in self._nested.values() for each in nested._own)]
        self._found = found
        self.first = found[0].key
        self.select = _listed(
            f"{alias}.{each.name}" + ("" if each.key == each.name else f" AS {each.key}") for each in found
        )
        self.names = _listed(each.name for each in found)
        self.values = _listed(f"%({each.key})s" for each in found)

    def parameters(self, record: R, cipher: Cipher | None = None) -> Row:
        """Return the parameters of a record's columns, texts sealed."""
        values = self._of_record(record)
        found = dict(zip(self._keys, values, strict=True))
        for key, write in self._writers:
            if (value := found[key]) is not None:
                found[key] = write(value)
        context = {name: str(getattr(record, name)) for name in self._context_fields}
        for sealed, template in self._sealed:
            if (text := found[sealed.key]) is not None:
                assert cipher is not None
                found[sealed.key] = seal_text(cipher, text, template.format_map(context))
        for name, nested in self._nested.items():
            found |= nested.parameters(getattr(record, name))
        return found

    def row(self, record: R) -> Row:
        """Return a record's values by the names of their columns."""
        return dict(zip((each.name for each in self._found), self.parameters(record).values(), strict=True))

    def equal(self, one: str, other: str) -> str:
        """Return the condition that rows of two aliases hold the same record."""
        parts = [
            f"{one}.{each.name} {'IS NOT DISTINCT FROM' if each.is_nullable else '='} {other}.{each.name}"
            for each in self._found
        ]
        return _wrapped([parts[0], *(f"AND {each}" for each in parts[1:])], " ")

    def read(self, row: Row, cipher: Cipher | None = None, **given: Any) -> R:
        """Make the record of a row; a text that does not open is `None`. `given` are fields that no column holds."""
        values = dict(zip(self._fields, self._of_row(row), strict=True))
        for field, read in self._readers:
            if (value := values[field]) is not None:
                values[field] = read(value)
        context = {name: str(values[name]) for name in self._context_fields}
        for sealed, template in self._sealed:
            if (text := values[sealed.field]) is not None:
                assert cipher is not None
                values[sealed.field] = readable(cipher, text, template.format_map(context))
        for name, nested in self._nested.items():
            values[name] = nested.read(row)
        return self._record(**values | given)

    def find(self, row: Row, cipher: Cipher | None = None, **given: Any) -> R | None:
        """Make the record of a row of an outer join, if there is one."""
        return None if row[self.first] is None else self.read(row, cipher, **given)


def _conversions(type_: Any, of: type[StrEnum] | None) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return how a value that is not null is read from a column and written to it."""
    if get_origin(type_) in (UnionType, Union):
        type_ = next(each for each in get_args(type_) if each is not NoneType)
    if get_origin(type_) is tuple:
        if get_args(type_)[0] is str:
            return tuple, list
        inner = _member(of or get_args(type_)[0])
        return lambda values: tuple(map(inner, values)), lambda values: [each.value for each in values]
    if isinstance(type_, type) and issubclass(type_, Enum):
        return _member(of or type_), attrgetter("value")
    return (utc if type_ is datetime else _same), _same


def _member(kind: type[Enum]) -> Callable[[Any], Enum]:
    """Return a lookup of an enum's members by value: a call of the enum takes several times as long."""
    return {member.value: member for member in kind}.__getitem__


def _getter(
    make: Callable[..., Callable[[Any], Any]], names: tuple[str, ...]
) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of all names that returns a tuple, of a single name, too."""
    get = make(*names)
    return get if len(names) > 1 else lambda source: (get(source),)


def _same(value: Any) -> Any:
    return value


def _listed(parts: Iterable[str]) -> str:
    return _wrapped(parts, ", ")


def _wrapped(parts: Iterable[str], separator: str) -> str:
    """Join, a line broken only between the parts."""
    unbroken = separator.join(part.replace(" ", "\0") for part in parts)
    lines = textwrap.wrap(unbroken, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n    ".join(lines).replace("\0", " ")
