"""Failures at a destination host, counted for one account over all its endpoints (rule 3/disable-at-20).

Many endpoints of one account can lead to one host. Each has 20 failures of its own before it is disabled,
which would be 20 posts for each of them to a host that answers none. So failures are counted at the host,
too: 20 in a row, with no success at any endpoint of the account there, disable every endpoint of the account
there whose deliveries fail (`endpoints.disable_with_host`).

The count belongs to an account and a host: what one account's endpoints do never disables another's. It
starts again when it has disabled, or when an endpoint there was disabled by its own failures, so that an
endpoint that is made active again has 20 further failures, as the spec says, where it is the only one that
fails.
"""

from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, Endpoint, EndpointState

__all__ = ["HostFailures", "count_failure", "count_success"]


@frozen
class HostFailures:
    """Failed deliveries in a row at a host, over all endpoints of an account there; always fewer than 20."""

    account_id: UUID
    host: str
    consecutive_failures: int = 0


def count_success(failures: HostFailures) -> HostFailures:
    """Start again: the host took a delivery."""
    return evolve(failures, consecutive_failures=0) if failures.consecutive_failures else failures


def count_failure(failures: HostFailures, before: Endpoint, after: Endpoint) -> tuple[HostFailures, bool]:
    """Count a failed delivery at the host.

    A post that was in flight when its endpoint was disabled does not count, as it does not at the endpoint.

    Args:
        failures: at the endpoint's host, for its account.
        before: the endpoint before the failure was recorded.
        after: the endpoint after it.

    Returns:
        The new count, and whether the host has failed 20 times in a row: then every endpoint of the account
        at the host is to be passed to `disable_with_host`.
    """
    if before.state is EndpointState.DISABLED:
        return failures, False
    count = failures.consecutive_failures + 1
    is_host_failing = count >= DISABLE_AFTER_FAILURES
    starts_again = is_host_failing or after.state is EndpointState.DISABLED
    return evolve(failures, consecutive_failures=0 if starts_again else count), is_host_failing
