"""The clock of this machine. Local time zones are not used."""

from datetime import UTC, datetime


class SystemClock:
    """Reads the machine's wall clock, which may be set back or forth while the program runs."""

    def now(self) -> datetime:
        return datetime.now(UTC)
