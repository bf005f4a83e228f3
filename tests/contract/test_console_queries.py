"""What the pages of the console read, in every store."""

from meetcore.testing.contracts import ConsoleQueriesContract


class TestConsoleQueries(ConsoleQueriesContract):
    """In memory and in Postgres."""
