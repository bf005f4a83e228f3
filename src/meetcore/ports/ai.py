"""How an AI provider can fail: temporarily or for good."""

__all__ = ["AiRefused", "AiUnavailable"]


class AiUnavailable(Exception):
    """It did not answer, or asked to come back later: the same call may work then. The text is for the log
    only.

    `retry_after_s` is how long it asked to be left alone, where it did.
    """

    def __init__(self, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class AiRefused(Exception):
    """It refused for good: this content, or this service. The text is for the log only."""
