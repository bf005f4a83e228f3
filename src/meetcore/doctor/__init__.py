"""Checks for an operator: is everything that the settings name there, and does it let us in?

- ``report``: what a check answers
- ``database``: checks of PostgreSQL, each on a connection of its own
- ``services``: checks of everything else
- ``run``: runs all of them beside each other, each with a deadline

It changes nothing, and sells nothing: no meeting is made and no model is asked.
"""

from meetcore.doctor.report import CheckResult, CheckStatus
from meetcore.doctor.run import DEADLINE_S, run_checks

__all__ = ["DEADLINE_S", "CheckResult", "CheckStatus", "run_checks"]
