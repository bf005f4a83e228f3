"""`POST /meetings` against pgbench running the same statements."""

from benchmarks.load import Load, run_load
from benchmarks.pgbench import Pgbench
from benchmarks.processes import Program
from benchmarks.report import Result, middle
from benchmarks.seeds import ACCOUNTS, SeededAccounts

__all__ = ["measure_busy_account", "measure_creations"]

BUSY_CLIENTS = 16

_NO_FLOOR = "no pgbench on this machine, hence no floor; it comes with the server's packages"


def measure_creations(
    service: Program, seeded: SeededAccounts, floor: Pgbench | None, rounds: int, seconds: float
) -> list[Result]:
    """Over many accounts, and on one hot account, whose lock they all want."""
    run_load(service, "meetings", seeded.keys, requests=500)
    if floor is not None:
        floor.run(1, ACCOUNTS)
    spread = _turns(service, seeded.keys, floor, ACCOUNTS, rounds, seconds)
    hot = _turns(service, seeded.keys[:1], floor, 1, max(1, rounds // 2), seconds)
    return [
        _result("POST /meetings", *spread, "ratio ≥ 0.6; ≤ 1800 µs"),
        _result("POST /meetings, one hot account", *hot, ""),
    ]


def measure_busy_account(service: Program, seeded: SeededAccounts, rounds: int, seconds: float) -> Result:
    """Sixteen clients on one account, compared with sixteen clients on sixteen accounts; turns alternate."""
    taken: dict[int, list[Load]] = {1: [], BUSY_CLIENTS: []}
    for turn in range(rounds):
        for accounts in sorted(taken, reverse=turn % 2 == 0):
            keys = seeded.keys[:accounts]
            taken[accounts].append(run_load(service, "meetings", keys, seconds=seconds, clients=BUSY_CLIENTS))
    one, spread = taken[1], taken[BUSY_CLIENTS]
    extra = _figures(one) | {
        "floor_cpu_us_per_request": middle([load.cpu_us_per_request for load in spread]),
        "floor_p50_ms": middle([load.p50_ms for load in spread]),
        "floor_p99_ms": middle([load.p99_ms for load in spread]),
    }
    rate, spread_rate = (middle([load.rate for load in loads]) for loads in (one, spread))
    name = f"POST /meetings, {BUSY_CLIENTS} clients on one account; floor: on {BUSY_CLIENTS}"
    return Result(name, rate, spread_rate, "requests/s", "ratio ≥ 0.8", extra)


def _turns(
    service: Program, keys: list[str], floor: Pgbench | None, accounts: int, rounds: int, seconds: float
) -> tuple[list[Load], list[float]]:
    """Turns whose order alternates: what one leaves to be written or vacuumed falls into the next."""
    loads, rates = [], []
    for turn in range(rounds):
        for is_floor in (turn % 2 == 0, turn % 2 == 1):
            if not is_floor:
                loads.append(run_load(service, "meetings", keys, seconds=seconds))
            elif floor is not None:
                rates.append(floor.run(seconds, accounts))
    return loads, rates


def _result(name: str, loads: list[Load], rates: list[float], goal: str) -> Result:
    extra = _figures(loads)
    if not rates:
        extra["note"] = _NO_FLOOR
    return Result(
        name,
        middle([load.rate for load in loads]),
        middle(rates) if rates else None,
        "requests/s",
        goal,
        extra,
    )


def _figures(loads: list[Load]) -> dict[str, object]:
    return {
        "cpu_us_per_request": middle([load.cpu_us_per_request for load in loads]),
        "p50_ms": middle([load.p50_ms for load in loads]),
        "p99_ms": middle([load.p99_ms for load in loads]),
    }
