"""The numbered SQL files that make up the schema, and what each says of itself.

A file may begin with these lines:

- `-- online`: its statements run one after another outside of a transaction, so that each may take long without
  holding a lock that others wait for. Which of them are done is kept: a step that was interrupted goes on with the
  next one, and a batch where it stopped.
- `-- optional`: this release runs without it, so that its processes may be started before `meetcore migrate`.
- `-- needs code of 0031`: a release that does not know step 0031 can no longer run after it. Without the line it can:
  the step only adds.

In an online step a statement under the line `-- in batches` is repeated until it returns no row: it takes `%(after)s`,
the key that the last batch ended at (`NULL` at first), and `%(rows)s`, and returns the last key of its own batch as
text.

A statement under the line `-- for each partition` is `CREATE INDEX name ON table (...)` of a partitioned table: the index is
built concurrently on one partition after another, see `partitioned_indexes`.
"""

import hashlib
import re
from functools import cached_property
from importlib import resources

from attrs import define, field, frozen

__all__ = [
    "Migration",
    "MigrationRefused",
    "Schemas",
    "Statement",
    "load_migrations",
    "oldest_schema",
    "schemas_of",
]

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_NEEDS = re.compile(r"^-- needs code of (\d{4})$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)
_BATCHES = "-- in batches\n"
_PARTITIONS = "-- for each partition\n"


class MigrationRefused(Exception):
    """The schema cannot be brought up to date; the message says why and what to do."""


@frozen
class Statement:
    """One statement of an online step."""

    text: str
    is_batched: bool = False
    is_for_each_partition: bool = False

    @property
    def is_concurrent(self) -> bool:
        """Whether it waits for transactions of others without anybody waiting for it."""
        return re.search(r"\bCONCURRENTLY\b", self.text) is not None


@define(slots=False, frozen=True)
class Migration:
    """One numbered step. The checksum is over its text."""

    number: int
    name: str
    text: str = field(repr=False)

    @property
    def title(self) -> str:
        """Its number and name, as its file has them."""
        return f"{self.number:04}_{self.name}"

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_online(self) -> bool:
        """Whether it runs outside of a transaction."""
        return "online" in self._directives

    @property
    def is_optional(self) -> bool:
        """Whether this release runs without it."""
        return "optional" in self._directives

    @property
    def needs_code_of(self) -> int:
        """The step that a release must know to run after this one; 0 where any can."""
        match = _NEEDS.search(self.text)
        return 0 if match is None else int(match[1])

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The statements of an online step; each ends with a semicolon at the end of a line."""
        parts = re.split(r";[ \t]*\n", self.text.rstrip().removesuffix(";"))
        found = []
        for part in parts:
            text = _COMMENT.sub("", part).strip()
            if text:
                found.append(Statement(text, _BATCHES in part, _PARTITIONS in part))
        return tuple(found)

    @property
    def _directives(self) -> frozenset[str]:
        head = re.match(r"(?:--.*\n)*", self.text)
        return frozenset(line.removeprefix("-- ") for line in (head[0] if head else "").splitlines())


def load_migrations() -> list[Migration]:
    """The steps that this release knows, in order. A number may be left out, and belongs to one step only.

    Raises:
        MigrationRefused: two steps have one number.
    """
    found = []
    for file in resources.files(f"{__package__}.migrations").iterdir():
        if match := _NAME.fullmatch(file.name):
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    if len({step.number for step in found}) < len(found):
        raise MigrationRefused("two migrations have the same number")
    return sorted(found, key=lambda step: step.number)


def oldest_schema(steps: list[Migration]) -> int:
    """The oldest schema that this release runs on: the number of the last step that is not optional."""
    return max((step.number for step in steps if not step.is_optional), default=0)


@frozen
class Schemas:
    """The schemas that a release runs on: from the last step that it needs to the last one that it knows.

    It runs on later ones, too, unless a step of theirs says that it needs code that the release lacks.
    """

    oldest: int
    newest: int

    @property
    def text(self) -> str:
        """The range as it is shown."""
        return f"{self.oldest:04} to {self.newest:04}"


def schemas_of(steps: list[Migration]) -> Schemas:
    """The range of schemas that a release with these steps runs on."""
    return Schemas(oldest_schema(steps), max((step.number for step in steps), default=0))
