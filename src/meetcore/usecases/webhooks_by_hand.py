"""What a member does by hand with webhook endpoints and their deliveries: each step checks the role."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.members.roles import Action, check_allowed
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointChanges
from meetcore.domain.webhooks.events import EncodedEvent, EventKind, is_past_retention
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.endpoint_health import EndpointHealth
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import DeliveryHistory
from meetcore.ports.store import Store
from meetcore.usecases.api import UseCases
from meetcore.usecases.audit import record_action
from meetcore.usecases.idempotency import Outcome
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks import Registration
from meetcore.usecases.work_by_hand import SentForm, caller_of, form_request

ROOT = "/dashboard/webhooks"
HEALTH_LASTS: Final = timedelta(hours=24)
"""The time that the health of an endpoint is about."""


@frozen
class WebhooksByHand:
    """Webhooks of one account, by the role of who is signed in.

    Each raises `ActionNotAllowed` where the role does not allow it, and what its use case raises.
    """

    api: UseCases
    store: Store
    runtime: Runtime

    async def list_endpoints(self, who: SignedIn, now: datetime) -> Sequence[EndpointHealth]:
        """Every endpoint, the newest first, with its health of the last day, without secrets."""
        check_allowed(who.role, Action.VIEW_WEBHOOKS)
        found = await self.api.queries.list_endpoint_health(who.account.id, now - HEALTH_LASTS)
        return [_without_secrets(one) for one in found]

    async def find_endpoint(self, who: SignedIn, endpoint_id: UUID, now: datetime) -> EndpointHealth:
        """One endpoint with its health of the last day, without its secret.

        Raises:
            NotFound: the account has no such endpoint.
        """
        check_allowed(who.role, Action.VIEW_WEBHOOKS)
        found = await self.api.queries.find_endpoint_health(who.account.id, endpoint_id, now - HEALTH_LASTS)
        if found is None:
            raise NotFound("No webhook with this id.")
        return _without_secrets(found)

    async def show_secret(
        self, who: SignedIn, endpoint_id: UUID, client_address: str | None, now: datetime
    ) -> str | None:
        """The secret of an endpoint; the audit log has an entry before it is shown.

        Returns:
            The secret, or `None` where the stored one cannot be decrypted.

        Raises:
            NotFound: the account has no such endpoint.
        """
        check_allowed(who.role, Action.MANAGE_WEBHOOK_SECRETS)
        found, origin = await self._find(who, endpoint_id), who.origin(client_address)
        async with self.store.begin() as tx:
            await record_action(
                tx, self.runtime, now, origin, "webhook.secret_shown", who.account.id, endpoint_id
            )
        return found.secret

    async def _find(self, who: SignedIn, endpoint_id: UUID) -> Endpoint:
        found = await self.api.queries.find_endpoint(who.account.id, endpoint_id)
        if found is None:
            raise NotFound("No webhook with this id.")
        return found

    async def list_deliveries(
        self, who: SignedIn, endpoint_id: UUID, status: DeliveryStatus | None, limit: int, before: UUID | None
    ) -> Sequence[DeliveryHistory]:
        """Deliveries to an endpoint, the newest first; see `Queries.list_deliveries`.

        Raises:
            NotFound: the account has no such endpoint.
        """
        check_allowed(who.role, Action.VIEW_WEBHOOKS)
        found = await self.api.queries.list_deliveries(who.account.id, endpoint_id, status, limit, before)
        if found is None:
            raise NotFound("No webhook with this id.")
        return found

    async def find_delivery(self, who: SignedIn, endpoint_id: UUID, delivery_id: UUID) -> DeliveryHistory:
        """One delivery with its attempts.

        Raises:
            NotFound: the endpoint has no such delivery.
        """
        check_allowed(who.role, Action.VIEW_WEBHOOKS)
        found = await self.api.queries.find_delivery(who.account.id, endpoint_id, delivery_id)
        if found is None:
            raise NotFound("No delivery with this id.")
        return found

    async def find_event(self, who: SignedIn, event_id: UUID, now: datetime) -> EncodedEvent | None:
        """The event of a delivery with its payload; `None` where it is past its retention."""
        check_allowed(who.role, Action.VIEW_WEBHOOKS)
        found = await self.api.queries.find_event(who.account.id, event_id)
        is_past = is_past_retention(event_id, now, self.api.events_kept)
        return None if is_past else found

    async def register(
        self, who: SignedIn, url: str, kinds: Sequence[EventKind], description: str | None, form: SentForm
    ) -> Outcome:  # fmt: skip
        """Register a URL; see `RegisterWebhook`.

        Raises:
            InvalidRequest: it cannot be the URL of a webhook.
        """
        check_allowed(who.role, Action.MANAGE_WEBHOOKS)
        wanted = Registration(parse_webhook_url(url), tuple(kinds), description)
        request = form_request(form, ROOT, [url, list(kinds), description])
        return await self.api.register_webhook(caller_of(who, form), wanted, request, form.at)

    async def change(
        self, who: SignedIn, endpoint_id: UUID, changes: EndpointChanges, form: SentForm
    ) -> Outcome:
        """Change, pause or resume an endpoint; see `UpdateWebhook`."""
        check_allowed(who.role, Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}", repr(changes))
        return await self.api.update_webhook(caller_of(who, form), endpoint_id, changes, request)

    async def remove(self, who: SignedIn, endpoint_id: UUID, form: SentForm) -> Outcome:
        """Remove an endpoint and what waits for it; see `RemoveWebhook`."""
        check_allowed(who.role, Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/remove", None)
        return await self.api.remove_webhook(caller_of(who, form), endpoint_id, request)

    async def rotate_secret(self, who: SignedIn, endpoint_id: UUID, form: SentForm) -> Outcome:
        """Replace the secret; see `RotateSecret`."""
        check_allowed(who.role, Action.MANAGE_WEBHOOK_SECRETS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/rotate", None)
        return await self.api.rotate_secret(caller_of(who, form), endpoint_id, request, form.at)

    async def send_test(self, who: SignedIn, endpoint_id: UUID, form: SentForm) -> Outcome:
        """Send `webhook.test`; see `SendTestEvent`."""
        check_allowed(who.role, Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/test", None)
        return await self.api.send_test_event(caller_of(who, form), endpoint_id, request, form.at)

    async def resend(self, who: SignedIn, endpoint_id: UUID, delivery_id: UUID, form: SentForm) -> Outcome:
        """Send the event of a delivery again; see `ResendDelivery`."""
        check_allowed(who.role, Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/{delivery_id}/resend", None)
        return await self.api.resend_delivery(
            caller_of(who, form), endpoint_id, delivery_id, request, form.at
        )

    async def recover(self, who: SignedIn, endpoint_id: UUID, since: datetime, form: SentForm) -> Outcome:
        """Send what failed or expired since an instant again; see `RecoverDeliveries`."""
        check_allowed(who.role, Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/recover", since.isoformat())
        return await self.api.recover_deliveries(caller_of(who, form), endpoint_id, since, request, form.at)


def _without_secrets(health: EndpointHealth) -> EndpointHealth:
    return evolve(health, endpoint=evolve(health.endpoint, secret=None, previous_secret=None))
