"""Which endpoint, which models, and the log for operators. Owns no connection."""

from typing import Protocol

from attrs import field, frozen


class Log(Protocol):
    """A structlog logger or one like it."""

    def warning(self, event: str, /, **fields: object) -> object:
        """Write one line."""

    def error(self, event: str, /, **fields: object) -> object:
        """Write one line that an operator must act on."""


@frozen
class AiAccess:
    """An endpoint and what is used of it.

    Attributes:
        base_url: where its paths begin, with the version and without a slash.
        api_key: none is sent where it is empty, as for self-hosted endpoints.
        transcribe_model: for speech to text.
        write_model: writes.
        timeout_s: for one call as a whole, the sending of the sound included.
        returns_timestamps: whether the model gives `verbose_json`, with the second of each segment. One
            that does not gives bare text, and is given shorter pieces.
        context_chars: how many characters of a transcript one call is given; a longer one is written part by
            part.
    """

    base_url: str
    api_key: str = field(repr=False)
    transcribe_model: str
    write_model: str
    timeout_s: float = 120.0
    returns_timestamps: bool = True
    context_chars: int = 200_000
