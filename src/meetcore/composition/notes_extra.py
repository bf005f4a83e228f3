"""The extra `notes`: whether this installation can work on recordings, and what is said where it cannot."""

import structlog

from meetcore.adapters.settings import SettingsRefused

INSTALL_NOTES = "pip install 'meetcore[server,notes]'"

log = structlog.get_logger("meetcore")


def can_make_notes() -> bool:
    """Return whether recordings can be measured here, and notes made of them."""
    from meetcore.adapters.media import can_edit

    return can_edit()


def require_notes() -> None:
    """Check that a process that is to write notes, and nothing else, can.

    Raises:
        SettingsRefused: the extra is not installed.
    """
    if not can_make_notes():
        raise SettingsRefused(f"recordings and notes need a package more: {INSTALL_NOTES}")


def warn_of_notes() -> None:
    """Log one line where a process does all the work of a worker but that on recordings and notes."""
    if not can_make_notes():
        log.warning("recordings are not measured and notes not made here", hint=INSTALL_NOTES)
