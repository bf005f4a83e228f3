"""The result of a check: its status, and in one line the finding or what to do."""

from enum import StrEnum

from attrs import frozen


class CheckStatus(StrEnum):
    """The status of a check. Only a failed one makes the whole fail."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@frozen
class CheckResult:
    """The outcome of one check. The message holds no secret, no address and no SQL."""

    status: CheckStatus
    message: str


def ok(message: str) -> CheckResult:
    """Report that all is well."""
    return CheckResult(CheckStatus.OK, message)


def warning(message: str) -> CheckResult:
    """Report what works and should be fixed."""
    return CheckResult(CheckStatus.WARNING, message)


def failed(message: str) -> CheckResult:
    """Report what does not work."""
    return CheckResult(CheckStatus.FAILED, message)


def skipped(message: str) -> CheckResult:
    """Report what could not be checked."""
    return CheckResult(CheckStatus.SKIPPED, message)
