"""What the pages of the dashboard read, in every store."""

from meetcore.testing.contracts import DashboardQueriesContract


class TestDashboardQueries(DashboardQueriesContract):
    """In memory and in Postgres."""
