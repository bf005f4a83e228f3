"""docs/state-machines.md, drawn from the tables of the domain: a diagram and a grid for each machine.

Without arguments it writes the page; with `--check` it writes nothing and exits 1 where the page no
longer says what the tables say.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from textwrap import fill
from typing import Any

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "state-machines.md"
sys.path.insert(0, str(ROOT / "src"))

from meetcore.domain import deliveries, endpoints, idempotency, meetings  # noqa: E402  # the path comes first

HEAD = """# State machines

Each machine is one table in the domain, and this page is drawn from those tables by
`python scripts/check_state_machines.py`: do not edit it. An arrow that is not
there is illegal and changes nothing; in the grids its cell is empty.
"""


@frozen
class Machine:
    """A table, the state in which it begins, and what a reader should know of it."""

    title: str
    source: str
    table: Mapping[tuple[Any, Any], Any]
    starts: Any
    words: str


MACHINES = (
    Machine(
        "Meeting",
        "meetcore.domain.meetings.TRANSITIONS",
        meetings.TRANSITIONS,
        meetings.MeetingStatus.PROVISIONING,
        "Customers see neither `provisioning` nor `abandoned`, and `cancelling` as `scheduled`. What is "
        "shown also follows the clock: `started` from `start_at` on, `ended` from `end_at` on.",
    ),
    Machine(
        "Webhook endpoint",
        "meetcore.domain.endpoints.TRANSITIONS",
        endpoints.TRANSITIONS,
        endpoints.EndpointState.ACTIVE,
        f"`disable` is the failure that is the {endpoints.DISABLE_AFTER_FAILURES}th in a row. Only `active` "
        "is sent to. Pausing a disabled endpoint leaves it disabled, and resuming it starts the count again.",
    ),
    Machine(
        "Webhook delivery",
        "meetcore.domain.deliveries.TRANSITIONS",
        deliveries.TRANSITIONS,
        deliveries.DeliveryStatus.PENDING,
        "A delivery is `held` while its endpoint is not active. A post that was in flight at that moment is "
        "still judged.",
    ),
    Machine(
        "Idempotency key",
        "meetcore.domain.idempotency.TRANSITIONS",
        idempotency.TRANSITIONS,
        idempotency.KeyState.UNKNOWN,
        "`lapse` is the clock's and written by nobody. A key is forgotten "
        f"{idempotency.REMEMBERED_HOURS} hours after it was first seen.",
    ),
)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` tell whether it is stale."""
    wanted = page()
    is_current = PAGE.exists() and PAGE.read_text("utf-8") == wanted
    if arguments != ["--check"]:
        PAGE.write_text(wanted, "utf-8")
        return 0
    if not is_current:
        print(f"docs/{PAGE.name} is stale: run python scripts/check_state_machines.py", file=sys.stderr)
    return 0 if is_current else 1


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for machine in MACHINES:
        words = fill(f"From `{machine.source}`. {machine.words}", 110, break_on_hyphens=False)
        parts.append(f"## {machine.title}\n\n{words}\n")
        parts.append(f"```mermaid\n{diagram(machine)}\n```\n")
        parts.append(grid(machine))
    parts.append(
        "### What a request with a known key gets\n\nFrom `meetcore.domain.idempotency.DECISIONS`.\n"
    )
    parts.append(decisions())
    return "\n".join(parts)


def diagram(machine: Machine) -> str:
    """The table as a Mermaid state diagram; events with the same way share an arrow."""
    arrows: dict[tuple[Any, Any], list[str]] = {}
    for (state, event), target in machine.table.items():
        arrows.setdefault((state, target), []).append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {machine.starts.value}"]
    lines += [
        f"    {state.value} --> {target.value}: {', '.join(sorted(events))}"
        for (state, target), events in arrows.items()
    ]
    left = {state for state, _ in machine.table}
    ends = [state for state in _members(machine.starts) if state not in left]
    return "\n".join(lines + [f"    {state.value} --> [*]" for state in ends])


def grid(machine: Machine) -> str:
    """Every pair of state and event; an empty cell is illegal."""
    states = _members(machine.starts)
    events = _members(next(iter(machine.table))[1])
    rows = [
        [state.value] + [_target(machine.table.get((state, event))) for event in events] for state in states
    ]
    return _table(["state \\ event", *(event.value for event in events)], rows)


def decisions() -> str:
    """What a request is to do, by the key's state and whether its fingerprint is the same."""
    rows = [
        [state.value, idempotency.DECISIONS[state, True].value, idempotency.DECISIONS[state, False].value]
        for state in idempotency.KeyState
    ]
    return _table(["state", "same request", "another request"], rows)


def _members(member: Enum) -> list[Any]:
    return list(type(member))


def _target(state: Any) -> str:
    return "" if state is None else str(state.value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
