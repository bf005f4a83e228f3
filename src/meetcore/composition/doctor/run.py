"""Running the checks in parallel, each in its own thread and with its own deadline."""

import queue
import threading
import time
from collections.abc import Callable, Mapping

from meetcore.adapters.settings import Settings
from meetcore.composition.doctor.database import DATABASE_CHECKS, check_database
from meetcore.composition.doctor.report import CheckResult, CheckStatus, failed, skipped
from meetcore.composition.doctor.services import SERVICE_CHECKS
from meetcore.ports.store import StoreUnavailable

DEADLINE_S = 10.0
"""Seconds that one check may take. The checks of the database follow the one that reaches it."""

Check = Callable[[Settings], CheckResult]


def run_checks(settings: Settings, deadline_s: float = DEADLINE_S) -> dict[str, CheckResult]:
    """Run every check.

    Args:
        settings: read, and checked for their form only.
        deadline_s: seconds for each check; one that takes longer has failed.

    Returns:
        The outcomes by the names of the checks, the database's first.
    """
    services = _Running(SERVICE_CHECKS, settings, deadline_s)
    reached = _Running({"database": check_database}, settings, deadline_s).results()
    if reached["database"].status is CheckStatus.FAILED:
        database = dict.fromkeys(DATABASE_CHECKS, skipped("the database is not reached"))
    else:
        database = _Running(DATABASE_CHECKS, settings, deadline_s).results()
    return reached | database | services.results()


class _Running:
    """Running checks, in daemon threads."""

    def __init__(self, checks: Mapping[str, Check], settings: Settings, deadline_s: float) -> None:
        self._names = list(checks)
        self._deadline_s = deadline_s
        self._ends_at = time.monotonic() + deadline_s
        self._done: queue.SimpleQueue[tuple[str, CheckResult]] = queue.SimpleQueue()
        for name, check in checks.items():
            threading.Thread(target=self._run, args=(name, check, settings), daemon=True).start()

    def _run(self, name: str, check: Check, settings: Settings) -> None:
        try:
            result = check(settings)
        except StoreUnavailable:
            result = failed("the database went away or was too slow: try again")
        except Exception as error:  # noqa: BLE001 - one check's defect must not hide the others
            # Its message may hold an address or a secret; its type does not.
            result = failed(f"the check itself failed ({type(error).__name__}): please report it")
        self._done.put((name, result))

    def results(self) -> dict[str, CheckResult]:
        """Wait for all of them, to the deadline."""
        found: dict[str, CheckResult] = {}
        while len(found) < len(self._names):
            try:
                name, result = self._done.get(timeout=max(0.0, self._ends_at - time.monotonic()))
            except queue.Empty:
                break
            found[name] = result
        late = failed(f"no answer within {self._deadline_s:g} s: see that it runs and is reached from here")
        return {name: found.get(name, late) for name in self._names}
