"""`GET /me` against a bare route with one SELECT."""

from benchmarks.load import Load, run_load
from benchmarks.processes import Program
from benchmarks.report import Result, middle
from benchmarks.seeds import SeededAccounts

__all__ = ["measure_reads"]


def measure_reads(
    service: Program, bare: Program, seeded: SeededAccounts, rounds: int, seconds: float
) -> Result:
    """Return the medians of alternating turns."""
    taken: dict[int, list[Load]] = {service.pid: [], bare.pid: []}
    for program in (service, bare):
        run_load(program, "me", seeded.keys, requests=500)
    for _ in range(rounds):
        for program in (bare, service):
            taken[program.pid].append(run_load(program, "me", seeded.keys, seconds=seconds))
    own_loads, floor = taken[service.pid], taken[bare.pid]
    extra = {
        "cpu_us_per_request": middle([load.cpu_us_per_request for load in own_loads]),
        "floor_cpu_us_per_request": middle([load.cpu_us_per_request for load in floor]),
        "p50_ms": middle([load.p50_ms for load in own_loads]),
        "p99_ms": middle([load.p99_ms for load in own_loads]),
    }
    rate, floor_rate = (middle([load.rate for load in loads]) for loads in (own_loads, floor))
    return Result("GET /me", rate, floor_rate, "requests/s", "ratio ≥ 0.5", extra)
