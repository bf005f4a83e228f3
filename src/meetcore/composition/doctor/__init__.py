"""Checks for an operator: does everything that the settings name exist and accept our access?

- ``report``: what a check answers
- ``database``: checks of PostgreSQL, each on a connection of its own
- ``services``: checks of everything else
- ``run``: runs all of them beside each other, each with a deadline

It changes nothing and costs nothing: no meeting is made and no model is called.
"""

from meetcore.composition.doctor.report import CheckResult, CheckStatus
from meetcore.composition.doctor.run import DEADLINE_S, run_checks

__all__ = ["DEADLINE_S", "CheckResult", "CheckStatus", "run_checks"]
