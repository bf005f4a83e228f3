"""The operations of the API, each described once, for both clients.

An operation returns a description of its call; what a client's method of that name gives is what the
description is read as: `Call[Meeting]` a `Meeting`, `Listing[Meeting]` the meetings page after page.

Everything that changes something takes an `idempotency_key`: yours, if the same intent may be called again by
another process or on another day, else a fresh one that only the attempts of this call share. A field that is
not given is not sent, so that a later version sends the same bytes under the same key.
"""

from collections.abc import Iterable
from datetime import date, datetime, time
from types import NoneType

from meetcore.client.calls import (
    Call,
    Id,
    Listing,
    change,
    day_text,
    encode,
    instant_text,
    page_query,
    path_of,
    read,
    time_text,
)
from meetcore.client.descriptors import M, Resource, listing, operation
from meetcore.client.records import (
    Account,
    Balance,
    Cancellation,
    Delivery,
    Estimate,
    Meeting,
    Page,
    PricingTier,
    Recovery,
    Transaction,
    Webhook,
)
from meetcore.domain.webhooks.endpoints import UNSET, Unset

__all__ = ["AccountOperations", "CreditOperations", "MeetingOperations", "WebhookOperations"]


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


class AccountOperations(Resource[M]):
    """The caller's account, and what can be bought."""

    @operation
    def me(self) -> Call[Account]:
        """Return the key's account, its scopes and the balance. Any valid key may ask."""
        return read("/me", Account)

    @listing
    def pricing_tiers(self, *, page_size: int | None = None) -> Listing[PricingTier]:
        """List the tiers on sale."""
        return Listing(read("/pricing-tiers", Page[PricingTier], page_query(page_size)))


class MeetingOperations(Resource[M]):
    """Meetings."""

    @operation
    def create(
        self,
        *,
        title: str,
        date: date | str,
        start_time: time | str,
        pricing_tier_id: str,
        description: str | None = None,
        password: str | None = None,
        with_recording: bool | None = None,
        auto_notulen: bool | None = None,
        must_login: bool | None = None,
        mic_off: bool | None = None,
        email_notification: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Meeting]:
        """Create a meeting and deduct its credits, once, however often it has to be sent.

        Args:
            title: 1 to 200 characters.
            date: in WIB (UTC+7).
            start_time: in WIB (UTC+7), in whole minutes.
            pricing_tier_id: one of `pricing_tiers`.
            description: at most 1000 characters.
            password: 4 to 10 characters; generated when not given.
            with_recording: record the meeting, which may cost more.
            auto_notulen: write notes from the recording; forces recording on.
            must_login: let in only who is logged in.
            mic_off: participants join muted.
            email_notification: notify the account's owner by e-mail.
            idempotency_key: see the module.

        Raises:
            InsufficientCredits, CreditCapExceeded: nothing was made or charged.
            ServiceUnavailable: no host is free at that time.
            UpstreamError: the provider refused, or has not answered; the same key gets the result later.
        """
        body = _given(
            title=title,
            date=day_text(date),
            start_time=time_text(start_time),
            pricing_tier_id=pricing_tier_id,
            description=description,
            password=password,
            with_recording=with_recording,
            auto_notulen=auto_notulen,
            must_login=must_login,
            mic_off=mic_off,
            email_notification=email_notification,
        )
        return change("POST", "/meetings", Meeting, idempotency_key, body)

    @operation
    def get(self, meeting_id: Id) -> Call[Meeting]:
        """Read a meeting."""
        return read(path_of("meetings", meeting_id), Meeting)

    @listing
    def list(
        self,
        *,
        status: str | None = None,
        from_: datetime | date | str | None = None,
        to: datetime | date | str | None = None,
        page_size: int | None = None,
    ) -> Listing[Meeting]:
        """List the meetings, the newest first.

        Args:
            status: only those that stand so now, such as `MeetingStatus.SCHEDULED`.
            from_: only those that start then or later; a day begins at 00:00 WIB.
            to: only those that start before.
            page_size: how many a page holds, 1 to 100.
        """
        query = page_query(page_size, status=status, **{"from": instant_text(from_), "to": instant_text(to)})
        return Listing(read("/meetings", Page[Meeting], query))

    @operation
    def cancel(self, meeting_id: Id, *, idempotency_key: str | None = None) -> Call[Cancellation]:
        """Cancel a meeting with a refund, or end one that runs, without.

        Raises:
            Conflict: it has ended.
        """
        return change("DELETE", path_of("meetings", meeting_id), Cancellation, idempotency_key)


class CreditOperations(Resource[M]):
    """Credits."""

    @operation
    def get(self) -> Call[Balance]:
        """Return the balance, what is reserved of it, and the key's daily cap."""
        return read("/credits", Balance)

    @operation
    def estimate_meeting(
        self,
        *,
        pricing_tier_id: str,
        with_recording: bool | None = None,
        auto_notulen: bool | None = None,
        must_login: bool | None = None,
        mic_off: bool | None = None,
        email_notification: bool | None = None,
    ) -> Call[Estimate]:
        """Return what a meeting would cost. `meetings.create` charges the same.

        The arguments are those of `meetings.create`. What the provider cannot do is refused here, too.
        """
        body = _given(
            type="meeting",
            pricing_tier_id=pricing_tier_id,
            with_recording=with_recording,
            auto_notulen=auto_notulen,
            must_login=must_login,
            mic_off=mic_off,
            email_notification=email_notification,
        )
        return Call("POST", "/credits/estimate", Estimate, body=encode(body))

    @operation
    def estimate_notulen(self, *, duration: int) -> Call[Estimate]:
        """Return what the notes of a recording would cost, by its length in minutes."""
        return Call(
            "POST", "/credits/estimate", Estimate, body=encode({"type": "notulen", "duration": duration})
        )

    @listing
    def transactions(
        self,
        *,
        kind: str | None = None,
        from_: datetime | date | str | None = None,
        to: datetime | date | str | None = None,
        page_size: int | None = None,
    ) -> Listing[Transaction]:
        """List the ledger, the newest entry first.

        Args:
            kind: only those of a kind, such as `TransferKind.MEETING_CHARGE`.
            from_: only those made then or later; a day begins at 00:00 WIB.
            to: only those made before.
            page_size: how many a page holds, 1 to 100.
        """
        query = page_query(page_size, kind=kind, **{"from": instant_text(from_), "to": instant_text(to)})
        return Listing(read("/credits/transactions", Page[Transaction], query))


class WebhookOperations(Resource[M]):
    """Webhooks and their deliveries."""

    @operation
    def create(
        self,
        *,
        url: str,
        event_types: Iterable[str],
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Webhook]:
        """Register an https URL for notifications. The result holds the secret: keep it.

        Raises:
            Conflict: the URL is registered; `existing_id` says as what.
        """
        body = _given(url=url, event_types=_kinds(event_types), description=description)
        return change("POST", "/webhooks", Webhook, idempotency_key, body)

    @operation
    def get(self, webhook_id: Id) -> Call[Webhook]:
        """Read a webhook, with its secret if the key may write."""
        return read(path_of("webhooks", webhook_id), Webhook)

    @listing
    def list(self, *, page_size: int | None = None) -> Listing[Webhook]:
        """List the webhooks, without their secrets."""
        return Listing(read("/webhooks", Page[Webhook], page_query(page_size)))

    @operation
    def update(
        self,
        webhook_id: Id,
        *,
        event_types: Iterable[str] | Unset = UNSET,
        description: str | Unset | None = UNSET,
        is_active: bool | Unset = UNSET,
        idempotency_key: str | None = None,
    ) -> Call[Webhook]:
        """Change, pause or resume a webhook. What is not given stays; None clears the description."""
        kinds = event_types if isinstance(event_types, Unset) else _kinds(event_types)
        body = {"event_types": kinds, "description": description, "is_active": is_active}
        return change("PATCH", path_of("webhooks", webhook_id), Webhook, idempotency_key, body)

    @operation
    def delete(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Call[None]:
        """Remove a webhook, and what waits for it."""
        return change("DELETE", path_of("webhooks", webhook_id), NoneType, idempotency_key)

    @operation
    def rotate_secret(
        self, webhook_id: Id, *, overlap: int | None = None, idempotency_key: str | None = None
    ) -> Call[Webhook]:
        """Replace the secret; what waits is signed with the new one. Verify with both for a while.

        Args:
            webhook_id: of which webhook.
            overlap: for how many hours the Standard Webhooks headers carry a signature with the old secret,
                too: 0 to 24, or 24 if it is None.
            idempotency_key: see `operations`.
        """
        query = {} if overlap is None else {"overlap": str(overlap)}
        path = path_of("webhooks", webhook_id, "rotate-secret")
        return change("POST", path, Webhook, idempotency_key, query=query)

    @operation
    def test(self, webhook_id: Id, *, idempotency_key: str | None = None) -> Call[Delivery]:
        """Send `webhook.test`, subscribed or not.

        Raises:
            Conflict: the webhook is not active.
        """
        return change("POST", path_of("webhooks", webhook_id, "test"), Delivery, idempotency_key)

    @listing
    def deliveries(
        self, webhook_id: Id, *, status: str | None = None, page_size: int | None = None
    ) -> Listing[Delivery]:
        """List the deliveries to a webhook with their attempts, the newest first."""
        path = path_of("webhooks", webhook_id, "deliveries")
        return Listing(read(path, Page[Delivery], page_query(page_size, status=status)))

    @operation
    def delivery(self, webhook_id: Id, delivery_id: Id) -> Call[Delivery]:
        """Read a delivery with its attempts."""
        return read(path_of("webhooks", webhook_id, "deliveries", delivery_id), Delivery)

    @operation
    def resend(
        self, webhook_id: Id, delivery_id: Id, *, idempotency_key: str | None = None
    ) -> Call[Delivery]:
        """Send the event of a delivery again, the same bytes, as a new delivery."""
        path = path_of("webhooks", webhook_id, "deliveries", delivery_id, "resend")
        return change("POST", path, Delivery, idempotency_key)

    @operation
    def recover(
        self, webhook_id: Id, *, since: datetime | date | str, idempotency_key: str | None = None
    ) -> Call[Recovery]:
        """Send every delivery again that failed or expired since a time, at most 90 days ago.

        A day begins at 00:00 WIB. Ask again while `has_more` is true.

        Raises:
            Conflict: the webhook is not active.
        """
        path = path_of("webhooks", webhook_id, "recover")
        return change("POST", path, Recovery, idempotency_key, {"since": instant_text(since)})


def _kinds(event_types: Iterable[str]) -> tuple[str, ...]:
    if isinstance(event_types, str):
        raise TypeError("give the event types as a list: [EventKind.MEETING_CREATED]")
    return tuple(event_types)
