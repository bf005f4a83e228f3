"""The one error of this package."""


class EmbeddedPostgresError(Exception):
    """The embedded server cannot be started or stopped. The message says what to do about it."""
