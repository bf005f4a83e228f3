"""One log line for each change by an operator: what, of whom, and by which user of the system."""

import os
import sys
from collections.abc import Mapping

import structlog

_SHOWN = ("id", "account_id", "amount", "balance", "is_new", "made", "dropped", "applied", "granted_to")
"""Fields of a command's record that may stand in a log: no names, addresses, reasons or keys."""

log = structlog.get_logger("meetcore")


def log_action(action: str, record: Mapping[str, object]) -> None:
    """Log that a command changed something; not on a terminal, whose user reads the command's output."""
    if sys.stderr.isatty():
        return
    fields = {name: record[name] for name in _SHOWN if name in record}
    log.info("operator action", action=action, operator=system_user(), **fields)


def system_user() -> str:
    """Return the user who runs the program; under `sudo`, the user who called it."""
    user = _name_of(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "unknown")
    behind = os.environ.get("SUDO_USER", "")
    return f"{behind} as root" if user == "root" and behind else user


def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run a user without a name
        return str(uid)
