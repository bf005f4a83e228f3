"""What a member does by hand that a key could do: meetings, notes and webhooks.

The same use cases as the API's, as a caller with the account's dashboard key and the scopes of the role. A
form carries a key of its own, so that a form that is sent twice is one request.
"""

from datetime import datetime
from uuid import UUID

from attrs import asdict, evolve, frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.meetings.meetings import MeetingOptions, MeetingRequest, plan_meeting
from meetcore.domain.members.roles import Action, check_allowed, scopes_of
from meetcore.domain.money.pricing import Quote
from meetcore.domain.requests.accounts import AccountStatus, status_of
from meetcore.domain.requests.idempotency import fingerprint, is_key
from meetcore.domain.requests.keys import dashboard_key
from meetcore.ports.member_queries import SignedIn
from meetcore.ports.queries import Caller
from meetcore.usecases.api import UseCases
from meetcore.usecases.idempotency import IdempotentRequest, Outcome


@frozen
class SentForm:
    """A form that a member sent: when, from where, and its key, by which sending it twice is one request."""

    key: str
    at: datetime
    client_address: str | None = None


@frozen
class WorkByHand:
    """A member's own actions.

    Each raises `ActionNotAllowed` where the role does not allow it, and what its use case raises.
    """

    api: UseCases

    def quote_meeting(self, who: SignedIn, tier_id: str, options: MeetingOptions) -> Quote:
        """Price a meeting before it is made; see `Estimate.meeting`.

        Raises:
            Unprocessable: the account is suspended, too.
        """
        check_allowed(who.role, Action.MANAGE_MEETINGS)
        _check_active(who)
        return self.api.estimate.meeting(tier_id, options)

    def check_meeting(self, who: SignedIn, wanted: MeetingRequest, now: datetime) -> None:
        """Refuse what `plan_meeting` refuses, before anything is reserved."""
        check_allowed(who.role, Action.MANAGE_MEETINGS)
        plan_meeting(wanted, self.api.estimate.catalogue, self.api.estimate.abilities, now)

    async def create_meeting(self, who: SignedIn, wanted: MeetingRequest, form: SentForm) -> Outcome:
        """Make a meeting and charge it to the account; see `CreateMeeting`."""
        check_allowed(who.role, Action.MANAGE_MEETINGS)
        request = form_request(form, "/dashboard/meetings", asdict(wanted))
        return await self.api.create_meeting(caller_of(who, form), wanted, request, form.at)

    async def cancel_meeting(self, who: SignedIn, meeting_id: UUID, form: SentForm) -> Outcome:
        """Cancel a meeting and return its credits, or end one that runs; see `CancelMeeting`."""
        check_allowed(who.role, Action.MANAGE_MEETINGS)
        request = form_request(form, f"/dashboard/meetings/{meeting_id}/cancel", None)
        return await self.api.cancel_meeting(caller_of(who, form), meeting_id, request, form.at)


def caller_of(who: SignedIn, form: SentForm) -> Caller:
    """The caller that a member is to the use cases of the API.

    Raises:
        Unprocessable: the account is suspended; its members may look, and start nothing.
    """
    _check_active(who)
    scopes = tuple(sorted(scopes_of(who.role)))
    key = evolve(dashboard_key(who.account.id, form.at), scopes=scopes)
    user_id = None if who.user is None else who.user.id
    return Caller(key, who.account, user_id=user_id, origin=who.origin(form.client_address))


def _check_active(who: SignedIn) -> None:
    if status_of(who.account.suspended_at) is AccountStatus.SUSPENDED:
        raise Unprocessable("The account is suspended. Ask the operator of the service.")


def form_request(form: SentForm, path: str, body: object) -> IdempotentRequest:
    """The identity of a form that may be sent twice: its key, and what it asks for."""
    return IdempotentRequest(form.key if is_key(form.key) else None, fingerprint("POST", path, body))
