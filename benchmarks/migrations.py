"""`python -m benchmarks.migrations [--rows 400000] [--previous CHECKOUT --step 49]`: an upgrade under load.

A database of an earlier release with that many rows in each table that grows is brought up to date while
probes read and write (`probes`). For each step: how long it takes, the longest statement of a probe, and the
longest wait behind a lock of the step, which may be half a second. Then once more, on few rows, beside a
transaction that holds its locks for `--hold` seconds. `--step` is the last step of that release, and
`--previous` a checkout of it: its `serve` sells and lists all along, and for a while on the new schema; then
it is started anew there, where the steps do not rule that out.
"""

import argparse
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import psycopg
from attrs import define, field, frozen

from benchmarks.history import LAST_RELEASE, fill, migrate_to
from benchmarks.places import database_server, empty_database
from benchmarks.previous import Sales, previous_release
from benchmarks.probes import Probing, Waited, probing, watching
from meetcore.adapters.postgres.migrate import migrate, missing, needed
from meetcore.adapters.postgres.migration_steps import Migration

LONGEST_WAIT_S = 0.5
LONGEST_WAIT_OF_A_TRY_S = 1.0
"""A try gives up after 0.3 s; what the server and this machine take for it comes on top."""

SMOKE_ROWS, SMOKE_HOLD_S = 2_000, 4.0

# What the totals have to be: each posting once, whether it was there before or came meanwhile.
_TOTALS = """
SELECT (SELECT sum(entries) FROM ledger_day_totals), count(*),
    (SELECT sum(credits) FROM ledger_day_totals), -sum(amount)
FROM ledger_entries WHERE book <> 'customer'
"""


@frozen
class StepRun:
    """A step and when it ran."""

    step: Migration
    began: float
    ended: float


@define
class Upgrade:
    """What came of a migration: its steps in time, tries that got no lock, and what others waited."""

    steps: list[StepRun] = field(factory=list)
    pauses: list[tuple[int, float]] = field(factory=list)
    waited: list[Waited] = field(factory=list)

    @property
    def longest_wait_s(self) -> float:
        return max((one.seconds for one in self.waited), default=0.0)

    def wait_within(self, run: StepRun) -> float:
        """The longest wait that began while a step ran, in seconds."""
        return max((w.seconds for w in self.waited if run.began <= w.since <= run.ended), default=0.0)


def upgrade(url: str) -> Upgrade:
    """Bring a database up to date, and watch who waits for it."""
    found, began = Upgrade(), list[tuple[Migration, float]]()
    with watching(url) as waited:
        migrate(
            url,
            on_step=lambda step, *_: began.append((step, time.monotonic())),
            on_wait=lambda step, pause_s: found.pauses.append((step.number, pause_s)),
        )
        ends = [at for _, at in began[1:]] + [time.monotonic()]
        found.steps = [StepRun(step, at, end) for (step, at), end in zip(began, ends, strict=True)]
    found.waited = waited()
    return found


def show_steps(done: Upgrade, probes: Probing) -> None:
    """Print a table of the steps."""
    print("| step | seconds | longest wait for a lock of it, ms | longest statement beside it, ms | which |")
    print("|---|---|---|---|---|")
    for run in done.steps:
        longest = probes.longest(run.began, run.ended)
        print(
            f"| {run.step.number:04} {run.step.name} | {run.ended - run.began:.2f} "
            f"| {done.wait_within(run) * 1000:.0f} | {longest.seconds * 1000:.0f} | {longest.name} |"
        )


def measure_beside_load(url: str, quiet_s: float, previous: Path | None) -> list[str]:
    """Upgrade a filled database beside probes. Returns what is wrong."""
    faults = []
    print(f"this release runs without {len(missing(url)) - len(needed(url))} of {len(missing(url))} steps")
    with ExitStack() as stack:
        sales = None if previous is None else stack.enter_context(previous_release(previous, url))
        with probing(url) as probes:
            time.sleep(quiet_s)  # without a migration, to compare with
            begun = time.monotonic()
            done = upgrade(url)
        before = probes.longest(0.0, begun)
        print(
            f"\nbefore: longest statement {before.seconds * 1000:.0f} ms ({before.name}) in {quiet_s:g} s\n"
        )
        show_steps(done, probes)
        print(
            f"\nall steps: {done.steps[-1].ended - begun:.1f} s; {len(probes.took)} statements of probes, "
            f"failed: {dict(probes.failed) or 0}; longest wait for a lock {done.longest_wait_s * 1000:.0f} ms"
        )
        if sales is not None:
            print(f"the last release, during the upgrade: {sales.text}")
            time.sleep(quiet_s)
            print(f"and {quiet_s:g} s on the new schema: {sales.text}")
            faults += _refused(sales)
    if previous is not None:
        faults += _start_anew(previous, url, quiet_s, [run.step for run in done.steps])
    if done.longest_wait_s > LONGEST_WAIT_S:
        worst = max(done.waited, key=lambda one: one.seconds)
        faults.append(f"waited {worst.seconds:.2f} s for a step: {worst.query}")
    if probes.failed:
        faults.append(f"statements of probes failed: {dict(probes.failed)}")
    return faults + _check_totals(url)


def _start_anew(previous: Path, url: str, seconds: float, applied: list[Migration]) -> list[str]:
    """Start the last release on the new schema. Returns what is wrong, nothing where a step rules it out."""
    is_told = applied[0].number > LAST_RELEASE + 1  # of a step that it does not know, what code that needs
    try:
        with previous_release(previous, url) as sales:
            time.sleep(seconds)
    except (AssertionError, subprocess.CalledProcessError):
        print("the last release does not start on the new schema")
        is_ruled_out = any(step.needs_code_of >= applied[0].number for step in applied)
        return [] if is_ruled_out or not is_told else ["the last release did not start on the new schema"]
    print(f"the last release, started anew on the new schema, {seconds:g} s: {sales.text}")
    return _refused(sales)


def _refused(sales: Sales) -> list[str]:
    return [f"the last release refused: {dict(sales.refused)}"] if sales.refused else []


def _check_totals(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        row = connection.execute(_TOTALS).fetchone()
    assert row is not None
    entries, posted, credits_, moved = row
    print(f"totals: {entries} of {posted} entries, {credits_} of {moved} credits")
    return [] if (entries, credits_) == (posted, moved) else [f"the totals are wrong: {row}"]


@contextmanager
def _holding(url: str, seconds: float) -> Iterator[Thread]:
    """A transaction that has read and written what steps change, and ends after some seconds."""

    def hold() -> None:
        with psycopg.connect(url) as connection:
            for table in ("accounts", "mails", "sessions", "meetings", "ledger_entries", "sign_in_links"):
                connection.execute(f"SELECT count(*) FROM {table}".encode())
            connection.execute("UPDATE mails SET attempts_made = 1 WHERE id = bench_id('mail', 1)")
            held.append(True)
            time.sleep(seconds)

    held: list[bool] = []
    thread = Thread(target=hold)
    thread.start()
    while not held:
        time.sleep(0.01)
    try:
        yield thread
    finally:
        thread.join()


def measure_beside_transaction(url: str, hold_s: float) -> list[str]:
    """Upgrade beside a transaction that does not end. Returns what is wrong."""
    with probing(url) as probes:
        begun = time.monotonic()
        with _holding(url, hold_s):
            done = upgrade(url)
    took_s = done.steps[-1].ended - begun
    pauses = ", ".join(f"{pause_s:g}" for _, pause_s in done.pauses)
    print(
        f"\nbeside a transaction of {hold_s:g} s: {took_s:.1f} s; {len(done.pauses)} tries got no lock "
        f"(steps {sorted({number for number, _ in done.pauses})}, pauses {pauses} s); "
        f"longest wait of others {done.longest_wait_s * 1000:.0f} ms; "
        f"{len(probes.took)} statements of probes, failed: {dict(probes.failed) or 0}"
    )
    faults = [] if done.pauses else ["no step met the transaction"]
    if done.longest_wait_s > LONGEST_WAIT_OF_A_TRY_S:
        faults.append(f"others waited {done.longest_wait_s:.1f} s for a step that got no lock")
    if probes.failed:
        faults.append(f"statements of probes failed: {dict(probes.failed)}")
    return faults


@contextmanager
def _last_release(server: str, rows: int, step: int) -> Iterator[str]:
    """A database of the last release, with this number of rows in each table."""
    begun = time.monotonic()
    with empty_database(server) as url:
        migrate_to(url, LAST_RELEASE)
        fill(url, rows)
        migrate_to(url, step)
        print(f"\n{rows} rows in each table, filled in {time.monotonic() - begun:.0f} s", flush=True)
        yield url


def measure(
    rows: int = SMOKE_ROWS,
    hold_s: float = SMOKE_HOLD_S,
    quiet_s: float = 1.0,
    previous: Path | None = None,
    step: int = LAST_RELEASE,
) -> list[str]:
    """Do all of it; what it is called with by itself says only whether it works. Returns what is wrong."""
    with database_server() as server:
        with _last_release(server, rows, step) as url:
            faults = measure_beside_load(url, quiet_s, previous)
        with _last_release(server, SMOKE_ROWS, step) as url:
            return faults + measure_beside_transaction(url, hold_s)


def main() -> None:
    """Measure, print, and end with 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.migrations", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000, help="of each table, an even number")
    parser.add_argument("--hold", type=float, default=60.0, help="seconds of the long transaction")
    parser.add_argument(
        "--step",
        type=int,
        default=LAST_RELEASE,
        help="the last step of the earlier release",
    )
    parser.add_argument("--previous", type=Path, help="a checkout of the last release")
    chosen = parser.parse_args()
    faults = measure(chosen.rows, chosen.hold, 20.0, chosen.previous, chosen.step)
    raise SystemExit("; ".join(faults) if faults else 0)


if __name__ == "__main__":
    main()
