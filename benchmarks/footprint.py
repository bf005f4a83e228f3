"""What it costs to import the rules, and to keep the service in memory."""

import os
import subprocess
import sys
import tempfile
import time

from benchmarks.load import run_load
from benchmarks.processes import Program
from benchmarks.report import Result, middle
from benchmarks.seeds import SeededAccounts

__all__ = ["measure_import", "measure_memory"]

RULES = (
    "webhooks.addresses", "webhooks.deliveries", "webhooks.endpoints", "webhooks.events", "money.holds",
    "meetings.hosts", "requests.idempotency", "requests.keys", "money.ledger", "meetings.meetings",
    "money.pricing", "requests.rate_window", "records.credits", "records.meetings", "records.notes",
    "records.webhooks", "webhooks.retry_schedule", "meetings.schedule", "webhooks.signature", "webhooks.urls",
)  # fmt: skip


def measure_import(rounds: int) -> list[Result]:
    """The package, which loads nothing, and its modules, against bare Python."""
    package, attrs = "import meetcore.domain", "import attrs"  # attrs: what any package on it pays first
    modules = "import " + ", ".join(f"meetcore.domain.{name}" for name in RULES)
    taken: dict[str, list[float]] = {"pass": [], attrs: [], package: [], modules: []}
    with tempfile.TemporaryDirectory() as place:
        # Compiled, as an installed package is, whatever the environment says; the first round compiles.
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = place
        for _ in range(rounds + 1):
            for code, times in taken.items():
                started = time.perf_counter()
                subprocess.run([sys.executable, "-c", code], check=True, env=environment)
                times.append((time.perf_counter() - started) * 1000)
    bare, with_attrs, alone, whole = (middle(times[1:]) for times in taken.values())
    note = f"it adds {whole - bare:.0f} ms, of which attrs {with_attrs - bare:.0f} ms"
    return [
        Result(package, alone, bare, "ms", "adds < 40 ms", {"added_ms": alone - bare}),
        Result("import every module of it", whole, bare, "ms", "", {"added_ms": whole - bare, "note": note}),
    ]


def measure_memory(service: Program, bare: Program, seeded: SeededAccounts, requests: int) -> Result:
    """After so many requests, half of each kind; the floor is the bare route's process."""
    run_load(service, "me", seeded.keys, requests=requests // 2)
    run_load(service, "meetings", seeded.keys, requests=requests // 2)
    run_load(bare, "me", seeded.keys, requests=requests)
    own, floor = service.memory_mb(), bare.memory_mb()
    return Result(
        "memory of meetcore serve", own["rss_mb"], floor["rss_mb"], "MB", "< 120 MB",
        own | {"note": f"resident {own['rss_mb']:.0f} MB, proportional {own['pss_mb']:.0f} MB"},
    )  # fmt: skip
