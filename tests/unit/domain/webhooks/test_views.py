import pytest
from hypothesis import given

from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.views import ClaimLimits, EndpointHealth
from meetcore.testing.strategies.webhooks import endpoints


@pytest.mark.parametrize(("per_host", "of_account"), [(1, 1), (2, 1), (3, 2), (16, 8)])
def test_an_account_has_half_of_the_posts_in_flight_at_a_host(per_host: int, of_account: int) -> None:
    assert ClaimLimits(per_host=per_host).per_host_of_account == of_account


@given(endpoints())
def test_the_success_rate_is_a_share_of_the_attempts(endpoint: Endpoint) -> None:
    assert EndpointHealth(endpoint).success_rate is None
    assert EndpointHealth(endpoint, attempts=4, successes=3).success_rate == 0.75
