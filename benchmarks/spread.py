"""`python -m benchmarks.spread [ACCOUNTS]`: what docs/scaling.md says of accounts spread over databases.

Nothing of it is built. The first tables are found in the schema and in docs/statements.sql: what belongs to
no account, and what has a key that is not one account's. The last one simulates how accounts are assigned, by
rendezvous hashing of their ids or by a directory, and what moves when a database is added.
"""

from __future__ import annotations

import hashlib
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from benchmarks.processes import ROOT

SCHEMA = ROOT / "src/meetcore/adapters/postgres/schema.sql"
STATEMENTS = ROOT / "docs/statements.sql"
ACCOUNTS = 10_000
DATABASES = 4
RUNS = 20
FAIR = 1.1
"""The busiest database's work, as a multiple of the mean, that a directory moves accounts to reach."""

PARETO = 1.16
"""The tail of the accounts' work: a fifth of them do four fifths of it."""

LARGEST_SHARE = 0.02
"""Of all work, at most so much is one account's: it has one lock, and its sales follow one another."""


class Table(NamedTuple):
    """A table: whether its rows belong to accounts, its keys over several accounts, its shared references."""

    name: str
    owner: str
    keys: tuple[str, ...]
    references: tuple[str, ...]


def tables(schema: str) -> Iterator[Table]:
    """Read the tables of a schema that is laid out as ours is: a column or a constraint a line."""
    bodies = dict(
        re.findall(r"^CREATE (?:UNLOGGED )?TABLE (\w+) \(\n(.*?)^\)", schema, re.MULTILINE | re.DOTALL)
    )
    owners = {name: _owner(name, body) for name, body in bodies.items()}
    unique = re.findall(
        r"^CREATE UNIQUE INDEX \w+ ON (\w+) \((.*)\)$|^CREATE UNIQUE INDEX \w+ ON (\w+) \((.*?)\)\s",
        schema,
        re.MULTILINE,
    )
    for name, body in bodies.items():
        keys = re.findall(r"^    (\w+)\s.*\bUNIQUE\b", body, re.MULTILINE)
        keys += re.findall(
            r"^    (?:CONSTRAINT \w+ )?(?:UNIQUE|EXCLUDE USING gist) \((.*?)\)[,\n]", body, re.MULTILINE
        )
        keys += [first[1] or first[3] for first in unique if name in (first[0], first[2])]
        references = {each for each in re.findall(r"\bREFERENCES (\w+)", body) if owners[each] == "nobody"}
        foreign = tuple(each for each in keys if not each.startswith("account_id"))
        yield Table(name, owners[name], foreign, tuple(sorted(references)))


def _owner(name: str, body: str) -> str:
    if name == "accounts" or re.search(r"^    account_id\s+uuid (NOT NULL|PRIMARY KEY)", body, re.MULTILINE):
        return "an account"
    return "an account or nobody" if re.search(r"^    account_id\s", body, re.MULTILINE) else "nobody"


def modules(page: str) -> Mapping[str, tuple[int, int]]:
    """For each module of the adapter: its statements that name one account, and the others."""
    named: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for heading, text in re.findall(
        r"^-- (\S+) -{3,}$(.*?)(?=^-- \S+ -{3,}$|\Z)", page, re.MULTILINE | re.DOTALL
    ):
        for statement in re.split(r"\n\n(?=-- )", text.strip()):
            is_named = re.search(r"%\((?:account_id|account)\)s", statement)
            (named if is_named else others)[heading] += 1
    return {name: (named[name], others[name]) for name in sorted(named | others)}


def work(accounts: int, random: Random) -> list[float]:
    """The share of all work that is each account's."""
    drawn = [random.paretovariate(PARETO) for _ in range(accounts)]
    most = LARGEST_SHARE * sum(drawn)
    bounded = [min(each, most) for each in drawn]
    return [each / sum(bounded) for each in bounded]


def rendezvous(account: int, databases: int) -> int:
    """The database whose hash with the account is the highest."""
    return max(range(databases), key=lambda one: hashlib.blake2b(f"{account}:{one}".encode()).digest())


def skew(shares: Sequence[float], places: Sequence[int], databases: int) -> float:
    """The busiest database's work as a multiple of the mean."""
    return max(loads(shares, places, databases)) * databases


def loads(shares: Sequence[float], places: Sequence[int], databases: int) -> list[float]:
    """The share of work of each database."""
    found = [0.0] * databases
    for share, place in zip(shares, places, strict=True):
        found[place] += share
    return found


def spread_out(shares: Sequence[float], places: list[int], databases: int) -> list[int]:
    """Move accounts, from the busiest database to the idlest one, until no database is busier than `FAIR`.

    Each step moves the largest account that does not make the idlest busier than the mean. Returns them.
    """
    moved: list[int] = []
    load = loads(shares, places, databases)
    by_size = sorted(range(len(shares)), key=shares.__getitem__, reverse=True)
    while max(load) * databases > FAIR:
        busiest, idlest = load.index(max(load)), load.index(min(load))
        room = 1 / databases - load[idlest]
        account = next((each for each in by_size if places[each] == busiest and shares[each] <= room), None)
        if account is None:
            break
        places[account] = idlest
        load[busiest] -= shares[account]
        load[idlest] += shares[account]
        moved.append(account)
    return moved


def owned_sentence(schema: str, page: str) -> str:
    """How much of a schema and of its statements is one account's, for docs/scaling.md."""
    owners = [each.owner for each in tables(schema)]
    counted = modules(page).values()
    named = sum(one for one, _ in counted)
    return (
        f"{owners.count('an account')} of {len(owners)} tables belong to accounts, and {named} of "
        f"{named + sum(other for _, other in counted)} statements name one by a parameter."
    )


class Outcome(NamedTuple):
    """What came of adding a database: skew before and after, accounts and work that moved."""

    before: float
    accounts: int
    work: float
    after: float


def by_hash(shares: Sequence[float], databases: int) -> Outcome:
    """Rendezvous hashing: what moves is not chosen."""
    first = [rendezvous(each, databases) for each in range(len(shares))]
    then = [rendezvous(each, databases + 1) for each in range(len(shares))]
    moved = [each for each in range(len(shares)) if first[each] != then[each]]
    return Outcome(
        skew(shares, first, databases), len(moved), sum(shares[each] for each in moved),
        skew(shares, then, databases + 1),
    )  # fmt: skip


def by_directory(shares: Sequence[float], databases: int) -> Outcome:
    """A directory: new accounts in turn, since their work is not known; then the few that are too large."""
    places = [each % databases for each in range(len(shares))]
    spread_out(shares, places, databases)
    before = skew(shares, places, databases)
    moved = spread_out(shares, places, databases + 1)
    return Outcome(
        before, len(moved), sum(shares[each] for each in moved), skew(shares, places, databases + 1)
    )


def main(arguments: list[str]) -> None:
    """Print the tables."""
    show_owners()
    show_assignments(int(arguments[0]) if arguments else ACCOUNTS)


def show_owners() -> None:
    """Print what belongs to no account, and what has a key that is not one account's."""
    found = list(tables(SCHEMA.read_text("utf-8")))
    print("| rows belong to | tables |\n|---|---|")
    for owner in ("an account", "an account or nobody", "nobody"):
        names = [each.name for each in found if each.owner == owner]
        print(f"| {owner} | {len(names)}: {', '.join(names)} |")
    print(
        "\n| table of accounts | unique over all accounts | references to what is nobody's |\n|---|---|---|"
    )
    for each in found:
        if each.owner != "nobody" and (each.keys or each.references):
            print(f"| {each.name} | {'; '.join(each.keys)} | {', '.join(each.references)} |")
    print("\n| module | statements that name one account | others |\n|---|---|---|")
    counted = modules(STATEMENTS.read_text("utf-8"))
    for name, (named, others) in counted.items():
        print(f"| {name} | {named} | {others} |")
    print(f"| all | {sum(one for one, _ in counted.values())} | {sum(one for _, one in counted.values())} |")


def show_assignments(accounts: int) -> None:
    """Print what moves when a database is added."""
    print(f"\n{accounts} accounts, {DATABASES} databases and then one more, the median of {RUNS} runs")
    print("| assigned by | busiest / mean | accounts moved | work moved | busiest / mean then |")
    print("|---|---|---|---|---|")
    runs = [work(accounts, Random(seed)) for seed in range(RUNS)]  # the same figures every time
    for name, assign in (("rendezvous hashing", by_hash), ("a directory", by_directory)):
        outcomes = [assign(shares, DATABASES) for shares in runs]
        before, moved, share, after = (statistics.median(column) for column in zip(*outcomes, strict=True))
        print(f"| {name} | {before:.2f} | {moved:.0f} | {share:.1%} | {after:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
