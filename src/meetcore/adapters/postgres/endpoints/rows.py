"""Webhook endpoints as rows: their columns, the secret sealed."""

from uuid import UUID

from meetcore.adapters.postgres.columns import Columns
from meetcore.domain.webhooks.endpoints import Endpoint

_CONTEXT = "{account_id}/webhooks/{id}/secret"
_PREVIOUS_CONTEXT = "{account_id}/webhooks/{id}/previous_secret"
ENDPOINT = Columns(
    Endpoint, "w", "endpoint_", sealed={"secret": _CONTEXT, "previous_secret": _PREVIOUS_CONTEXT}
)

# As attempts are judged: what signs them is neither read nor decrypted.
ENDPOINT_WITHOUT_SECRETS = Columns(Endpoint, "w", "endpoint_", without=("secret", "previous_secret"))


def previous_secret_context(account_id: UUID, endpoint_id: UUID) -> str:
    """What the secret before the last rotation is sealed for."""
    return _PREVIOUS_CONTEXT.format(account_id=account_id, id=endpoint_id)


def endpoint_context(account_id: UUID, endpoint_id: UUID) -> str:
    """What a webhook secret is sealed for."""
    return _CONTEXT.format(account_id=account_id, id=endpoint_id)


def previous_context(account_id: UUID, endpoint_id: UUID) -> str:
    """What the secret before the last rotation is sealed for."""
    return _PREVIOUS_CONTEXT.format(account_id=account_id, id=endpoint_id)
