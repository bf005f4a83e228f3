"""A log that keeps its lines."""

from attrs import field, frozen


@frozen
class KeptLog:
    """Fills every port of a log that tests give to an adapter."""

    lines: list[tuple[str, dict[str, object]]] = field(factory=list)

    def warning(self, event: str, /, **fields: object) -> None:
        self.lines.append((event, fields))

    info = error = exception = warning

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.lines]
