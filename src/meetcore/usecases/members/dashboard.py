"""The use cases of the dashboard and of the console, and actions of members by hand: meetings, webhooks."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from attrs import asdict, evolve, frozen

from meetcore.domain.errors import DomainError, require_record
from meetcore.domain.meetings.meetings import MeetingOptions, MeetingRequest, meeting_refusals
from meetcore.domain.members import roles
from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.members.views import SignedIn, SignedInOperator, check_member
from meetcore.domain.money.pricing import Quote
from meetcore.domain.money.statements import Month
from meetcore.domain.notes.edits import Corrections
from meetcore.domain.payments.bookings import Booking, bookings_of
from meetcore.domain.payments.packages import CreditOrder, CreditPackage, FreeAmount
from meetcore.domain.payments.receipts import Buyer, Receipt, check_buyer
from meetcore.domain.payments.views import PaymentPapers
from meetcore.domain.requests.idempotency import fingerprint, is_idempotency_key
from meetcore.domain.requests.keys import dashboard_key
from meetcore.domain.webhooks.endpoints import EndpointChanges
from meetcore.domain.webhooks.events import EncodedEvent, EventKind, is_past_retention
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.domain.webhooks.views import DeliveryFilter, DeliveryHistory, EndpointHealth
from meetcore.ports.payments import PaymentQueries
from meetcore.ports.queries import Caller, Queries
from meetcore.ports.runtime import DocumentPrinter
from meetcore.ports.store import Store
from meetcore.usecases.api import UseCases
from meetcore.usecases.meetings.resolve_doubts import ResolveDoubts
from meetcore.usecases.members import operators, sign_in_links
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.members.members import MemberKeys, Members, Playground
from meetcore.usecases.members.passkeys import Passkeys
from meetcore.usecases.members.reads import AccountSettings, MemberReads
from meetcore.usecases.members.sessions import Sessions, SignInWithPasskey
from meetcore.usecases.members.sign_up import SignUpForAccount
from meetcore.usecases.members.single_sign_on import SignInWithIdentity
from meetcore.usecases.money.prices import ConsolePrices
from meetcore.usecases.money.proposals import Proposals
from meetcore.usecases.money.statements import ConsoleLiability, Statements
from meetcore.usecases.notes.note_charges import EditNote, NoteRequest
from meetcore.usecases.payments.refunds import ConsolePayments
from meetcore.usecases.payments.start_payment import StartPayment
from meetcore.usecases.requests import console, export
from meetcore.usecases.requests.administration import Administration
from meetcore.usecases.requests.erasure import lock_unerased
from meetcore.usecases.requests.grants import Grants
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks.endpoints import Registration


@frozen
class SentForm:
    """A form that a member sent: when, from where, and its key, by which sending it twice is one request."""

    key: str
    at: datetime
    client_address: str | None = None


@frozen
class WorkByHand:
    """A member's own actions. Each raises the errors of its use case."""

    api: UseCases
    edit: EditNote

    def quote_meeting(self, who: SignedIn, tier_id: str, options: MeetingOptions) -> Quote:
        """Price a meeting before it is made; see `Estimate.meeting`."""
        check_member(who, roles.Action.MANAGE_MEETINGS)
        return self.api.estimate.meeting(tier_id, options)

    def check_meeting(self, who: SignedIn, wanted: MeetingRequest, now: datetime) -> Sequence[DomainError]:
        """Return the refusals of `plan_meeting`, all of them, before anything is reserved."""
        check_member(who, roles.Action.MANAGE_MEETINGS)
        return meeting_refusals(wanted, self.api.estimate.catalogue, self.api.estimate.abilities, now)

    async def create_meeting(self, who: SignedIn, wanted: MeetingRequest, form: SentForm) -> Outcome:
        """Make a meeting and charge it to the account; see `CreateMeeting`."""
        check_member(who, roles.Action.MANAGE_MEETINGS)
        request = form_request(form, "/dashboard/meetings", asdict(wanted))
        return await self.api.create_meeting(caller_of(who, form), wanted, request, form.at)

    async def cancel_meeting(self, who: SignedIn, meeting_id: UUID, form: SentForm) -> Outcome:
        """Cancel a meeting and return its credits, or end one that runs; see `CancelMeeting`."""
        check_member(who, roles.Action.MANAGE_MEETINGS)
        request = form_request(form, f"/dashboard/meetings/{meeting_id}/cancel", None)
        return await self.api.cancel_meeting(caller_of(who, form), meeting_id, request, form.at)

    async def create_note(
        self, who: SignedIn, meeting_id: UUID, wanted: NoteRequest, form: SentForm
    ) -> Outcome:
        """Have notes written of a recording, at the account's cost; see `CreateNote`."""
        check_member(who, roles.Action.MANAGE_NOTES)
        request = form_request(form, f"/dashboard/meetings/{meeting_id}/notes", asdict(wanted))
        return await self.api.create_note(caller_of(who, form), wanted, request, form.at)

    async def edit_note(
        self, who: SignedIn, note_id: UUID, wanted: Corrections, seen: datetime | None, form: SentForm
    ) -> Outcome:
        """Correct a note; see `EditNote`."""
        check_member(who, roles.Action.MANAGE_NOTES)
        request = form_request(form, f"/dashboard/notes/{note_id}/edit", repr(wanted))
        return await self.edit(caller_of(who, form), note_id, wanted, seen, request, form.at)


def caller_of(who: SignedIn, form: SentForm) -> Caller:
    """Return the caller that a member is to the use cases of the API."""
    scopes = tuple(sorted(roles.scopes_of(who.role)))
    key = evolve(dashboard_key(who.account.id, form.at), scopes=scopes)
    user_id = None if who.user is None else who.user.id
    return Caller(key, who.account, user_id=user_id, origin=who.origin(form.client_address))


def form_request(form: SentForm, path: str, body: object) -> IdempotentRequest:
    """Return the identity of a form that may be sent twice: its key, and a fingerprint of path and body."""
    return IdempotentRequest(
        form.key if is_idempotency_key(form.key) else None, fingerprint("POST", path, body)
    )


@frozen
class Shop:
    """The packages on sale, each with its order; other numbers of credits within the bounds of `free`."""

    packages: Sequence[tuple[CreditPackage, CreditOrder]]
    free: FreeAmount | None
    is_open: bool


@frozen
class CreditsByHand:
    """Payments of one account, by the signed-in member's role. Each raises the errors of its use case."""

    start: StartPayment
    store: Store
    queries: PaymentQueries
    runtime: Runtime

    def show_shop(self, who: SignedIn, now: datetime) -> Shop:
        """Return what is on sale; a shop without a gateway is not open."""
        check_member(who, roles.Action.VIEW_LEDGER)
        catalogue = self.start.packages
        on_sale = [(each, catalogue.order_package(each.id, now)) for each in catalogue.on_sale(now)]
        is_open = self.start.gateway is not None and bool(on_sale or catalogue.free)
        return Shop(on_sale, catalogue.free, is_open)

    async def buy(
        self, who: SignedIn, package_id: str | None, credits: int | None, form: SentForm, language: str
    ) -> Outcome:
        """Start a payment; see `StartPayment`."""
        check_member(who, roles.Action.BUY_CREDITS)
        order = partial(self.start.order, package_id, credits, form.at)
        request = form_request(form, "/dashboard/credits", {"package_id": package_id, "credits": credits})
        return await self.start(caller_of(who, form), order, request, form.at, language)

    async def list_payments(self, who: SignedIn, limit: int, before: UUID | None) -> Sequence[PaymentPapers]:
        """List the account's payments with their refunds, the newest first."""
        check_member(who, roles.Action.VIEW_LEDGER)
        return await self.queries.list_payments(who.account.id, limit, before)

    async def find(self, who: SignedIn, payment_id: UUID) -> PaymentPapers:
        """Return one payment with its refund."""
        check_member(who, roles.Action.VIEW_LEDGER)
        return require_record(await self.queries.find_payment(who.account.id, payment_id), "payment")

    async def find_receipt(self, who: SignedIn, payment_id: UUID) -> tuple[PaymentPapers, Receipt]:
        """Return the receipt of a payment that was made."""
        check_member(who, roles.Action.VIEW_STATEMENTS)
        found = await self.find(who, payment_id)
        return found, require_record(found.receipt, "receipt")

    async def list_bookings(self, who: SignedIn, month: Month) -> Sequence[Booking]:
        """List the purchases and refunds of a month."""
        check_member(who, roles.Action.VIEW_STATEMENTS)
        papers = await self.queries.list_papers(who.account.id, month.begins_at, month.ends_at)
        return bookings_of(papers, month.begins_at, month.ends_at)

    async def find_buyer(self, who: SignedIn) -> Buyer:
        """Return whom receipts are made out to."""
        check_member(who, roles.Action.VIEW_STATEMENTS)
        async with self.store.at_once() as tx:
            return await tx.payments.find_buyer(who.account.id)

    async def save_buyer(self, who: SignedIn, buyer: Buyer, form: SentForm) -> None:
        """Change whom later receipts are made out to. Raises as `check_buyer` and `lock_unerased` do."""
        check_member(who, roles.Action.BUY_CREDITS)
        check_buyer(buyer)
        async with self.store.begin() as tx:
            await lock_unerased(tx, who.account.id)
            await tx.payments.save_buyer(who.account.id, buyer)
            await record_action(
                tx, self.runtime, form.at, who.origin(form.client_address), "billing.changed", who.account.id,
                who.account.id,
            )  # fmt: skip


ROOT = "/dashboard/webhooks"
HEALTH_LASTS: Final = timedelta(hours=24)
"""The period that the health of an endpoint covers."""


@frozen
class WebhooksByHand:
    """Webhooks of one account, by the signed-in member's role. Each raises the errors of its use case."""

    api: UseCases
    store: Store
    runtime: Runtime

    async def list_endpoints(self, who: SignedIn, now: datetime) -> Sequence[EndpointHealth]:
        """Return every endpoint, the newest first, with its health of the last day, without secrets."""
        check_member(who, roles.Action.VIEW_WEBHOOKS)
        found = await self.api.queries.list_endpoint_health(who.account.id, now - HEALTH_LASTS)
        return [_without_secrets(one) for one in found]

    async def find_endpoint(self, who: SignedIn, endpoint_id: UUID, now: datetime) -> EndpointHealth:
        """Return one endpoint with its health of the last day, without its secret."""
        check_member(who, roles.Action.VIEW_WEBHOOKS)
        found = require_record(
            await self.api.queries.find_endpoint_health(who.account.id, endpoint_id, now - HEALTH_LASTS),
            "webhook",
        )
        return _without_secrets(found)

    async def show_secret(
        self, who: SignedIn, endpoint_id: UUID, client_address: str | None, now: datetime
    ) -> str | None:
        """Return the secret of an endpoint; `None` where the stored one cannot be decrypted.

        The audit log has an entry before it is shown.
        """
        check_member(who, roles.Action.MANAGE_WEBHOOK_SECRETS)
        found = await self.api.queries.find_endpoint(who.account.id, endpoint_id)
        secret, origin = require_record(found, "webhook").secret, who.origin(client_address)
        async with self.store.begin() as tx:
            await record_action(
                tx, self.runtime, now, origin, "webhook.secret_shown", who.account.id, endpoint_id
            )
        return secret

    async def list_deliveries(
        self, who: SignedIn, endpoint_id: UUID, wanted: DeliveryFilter, limit: int, before: UUID | None
    ) -> Sequence[DeliveryHistory]:
        """Deliveries to an endpoint, the newest first; see `Queries.list_deliveries`."""
        check_member(who, roles.Action.VIEW_WEBHOOKS)
        return require_record(
            await self.api.queries.list_deliveries(who.account.id, endpoint_id, wanted, limit, before),
            "webhook",
        )

    async def find_delivery(self, who: SignedIn, endpoint_id: UUID, delivery_id: UUID) -> DeliveryHistory:
        """Return one delivery with its attempts."""
        check_member(who, roles.Action.VIEW_WEBHOOKS)
        return require_record(
            await self.api.queries.find_delivery(who.account.id, endpoint_id, delivery_id), "delivery"
        )

    async def find_event(self, who: SignedIn, event_id: UUID, now: datetime) -> EncodedEvent | None:
        """Return the event of a delivery with its payload; `None` where it is past its retention."""
        check_member(who, roles.Action.VIEW_WEBHOOKS)
        found = await self.api.queries.find_event(who.account.id, event_id)
        is_past = is_past_retention(event_id, now, self.api.events_kept)
        return None if is_past else found

    async def register(
        self, who: SignedIn, url: str, kinds: Sequence[EventKind], description: str | None, form: SentForm
    ) -> Outcome:  # fmt: skip
        """Register a URL; see `Webhooks.register`. Raises `InvalidRequest` where it cannot be one."""
        check_member(who, roles.Action.MANAGE_WEBHOOKS)
        wanted = Registration(parse_webhook_url(url), tuple(kinds), description)
        request = form_request(form, ROOT, [url, list(kinds), description])
        return await self.api.webhooks.register(caller_of(who, form), wanted, request, form.at)

    async def change(
        self, who: SignedIn, endpoint_id: UUID, changes: EndpointChanges, form: SentForm
    ) -> Outcome:
        """Change, pause or resume an endpoint; see `Webhooks.update`."""
        check_member(who, roles.Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}", repr(changes))
        return await self.api.webhooks.update(caller_of(who, form), endpoint_id, changes, request)

    async def remove(self, who: SignedIn, endpoint_id: UUID, form: SentForm) -> Outcome:
        """Remove an endpoint with its pending deliveries; see `Webhooks.remove`."""
        check_member(who, roles.Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/remove", None)
        return await self.api.webhooks.remove(caller_of(who, form), endpoint_id, request)

    async def rotate_secret(self, who: SignedIn, endpoint_id: UUID, form: SentForm) -> Outcome:
        """Replace the secret; see `Webhooks.rotate_secret`."""
        check_member(who, roles.Action.MANAGE_WEBHOOK_SECRETS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/rotate", None)
        return await self.api.webhooks.rotate_secret(caller_of(who, form), endpoint_id, request, form.at)

    async def send_test(self, who: SignedIn, endpoint_id: UUID, form: SentForm) -> Outcome:
        """Send `webhook.test`; see `Webhooks.send_test`."""
        check_member(who, roles.Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/test", None)
        return await self.api.webhooks.send_test(caller_of(who, form), endpoint_id, request, form.at)

    async def resend(self, who: SignedIn, endpoint_id: UUID, delivery_id: UUID, form: SentForm) -> Outcome:
        """Send the event of a delivery again; see `Webhooks.resend`."""
        check_member(who, roles.Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/{delivery_id}/resend", None)
        return await self.api.webhooks.resend(
            caller_of(who, form), endpoint_id, delivery_id, request, form.at
        )

    async def recover(self, who: SignedIn, endpoint_id: UUID, since: datetime, form: SentForm) -> Outcome:
        """Send deliveries that failed or expired since an instant again; see `Webhooks.recover`."""
        check_member(who, roles.Action.MANAGE_WEBHOOKS)
        request = form_request(form, f"{ROOT}/{endpoint_id}/recover", since.isoformat())
        return await self.api.webhooks.recover(caller_of(who, form), endpoint_id, since, request, form.at)


def _without_secrets(health: EndpointHealth) -> EndpointHealth:
    return evolve(health, endpoint=evolve(health.endpoint, secret=None, previous_secret=None))


@frozen
class DashboardUseCases:
    """What members do and read, each by their role.

    `sends_mail` is whether sign-in links can be sent, `support_contact` an address for
    questions, or empty.
    """

    sessions: Sessions
    request_link: sign_in_links.RequestSignInLink
    redeem_link: sign_in_links.RedeemSignInLink
    sign_up: SignUpForAccount
    passkeys: Passkeys
    passkey_sign_in: SignInWithPasskey
    identity_sign_in: SignInWithIdentity
    members: Members
    reads: MemberReads
    keys: MemberKeys
    playground: Playground
    grants: Grants
    by_hand: WorkByHand
    webhooks: WebhooksByHand
    settings: AccountSettings
    credits: CreditsByHand
    statements: Statements
    printer: DocumentPrinter
    account_data: export.AccountData
    administration: Administration
    runtime: Runtime
    sends_mail: bool = False
    support_contact: str = ""


@frozen
class ConsoleAudit:
    """The audit log of everything."""

    queries: Queries

    async def list_entries(
        self, who: SignedInOperator, limit: int, before: UUID | None
    ) -> Sequence[AuditEntry]:
        """List audit entries, the newest first; see `Queries.list_audit_entries`."""
        roles.check_operator_allowed(who.operator.role, roles.OperatorAction.VIEW_AUDIT)
        return await self.queries.list_audit_entries(None, limit, before)


@frozen
class ConsoleUseCases:
    """What operators do and read, each by their role; `sends_mail` and `support_contact` as for members."""

    sessions: Sessions
    request_link: sign_in_links.RequestSignInLink
    redeem_link: sign_in_links.RedeemSignInLink
    passkeys: Passkeys
    passkey_sign_in: SignInWithPasskey
    identity_sign_in: SignInWithIdentity
    portal_links: operators.MakePortalLink
    tokens: operators.OperatorTokens
    accounts: console.ConsoleAccounts
    hosts: console.ConsoleHosts
    doubts: ResolveDoubts
    payments: ConsolePayments
    liability: ConsoleLiability
    health: console.ConsoleHealth
    prices: ConsolePrices
    impersonate: operators.Impersonate
    proposals: Proposals
    audit: ConsoleAudit
    runtime: Runtime
    key_prefix: str
    sends_mail: bool = False
    support_contact: str = ""
