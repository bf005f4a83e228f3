"""The past of the demo account: six weeks of members, keys, purchases, meetings, notes and deliveries.

`demo_history.toml` has the plan. It is carried out in the order of time, by the use cases, in the past; what
a stop in between leaves is sound, and the workers finish it.
"""

import tomllib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from importlib import resources
from typing import Any, Final
from uuid import UUID

from attrs import define, field, frozen

from meetcore.cli.demo import DEMO_KEY, Demo
from meetcore.composition.past import Past
from meetcore.domain.errors import DomainError
from meetcore.domain.meetings import meetings, schedule, views
from meetcore.domain.members import audit, sessions
from meetcore.domain.members.members import Membership, User
from meetcore.domain.members.roles import Role
from meetcore.domain.members.views import SignedIn
from meetcore.domain.requests import keys
from meetcore.domain.webhooks.endpoints import EndpointChanges
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.queries import Caller
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.members.dashboard import SentForm
from meetcore.usecases.requests.idempotency import IdempotentRequest
from meetcore.usecases.webhooks.endpoints import Registration

PLAN: Final[Mapping[str, Any]] = tomllib.loads(
    resources.files(__package__).joinpath("demo_history.toml").read_text("utf-8")
)
WEEKS: Final = 6
_MOBILE: Final = "Mobile app"
_AHEAD: Final = timedelta(days=3)
_CANCELLED_BEFORE: Final = timedelta(hours=20)
_LATER_EVENTS: Final = (EventKind.CREDIT_LOW, EventKind.CREDIT_TOPUP_SUCCEEDED, EventKind.NOTE_FAILED)
"""What the webhook of the past receives from now on: the others are those of the printed lines."""
_ONCE: Final = IdempotentRequest(None, b"")

Step = tuple[datetime, Callable[[], Awaitable[object]]]


@define
class PlannedMeeting:
    """A meeting of the past, or one that is to come; `id` once it is made."""

    title: str
    start: datetime
    slot: Mapping[str, Any]
    is_cancelled: bool = False
    error: str | None = None
    id: UUID | None = None

    @property
    def end(self) -> datetime:
        """The instant at which its host ends it."""
        return self.start + timedelta(minutes=self.slot["minutes"])

    def made_at(self, now: datetime) -> datetime:
        """Return when it was made: at least three days before its start, and before `now`."""
        ago = timedelta(hours=1) if self.slot.get("is_late") else self.start - now
        return min(self.start - _AHEAD, now - ago)


def opened_at(now: datetime) -> datetime:
    """Return when the account was opened."""
    return now + timedelta(days=PLAN["opened"])


def plan_meetings(now: datetime) -> Iterator[PlannedMeeting]:
    """Plan the meetings of six weeks, of the present one and of the next one."""
    today = now.astimezone(schedule.WIB).replace(second=0, microsecond=0)
    monday = today - timedelta(days=today.weekday() + 7 * WEEKS)
    for week in range(WEEKS + 2):
        for slot in PLAN["weekly"]:
            hour, minute = map(int, slot["time"].split(":"))
            start = (monday + timedelta(days=7 * week + slot["day"])).replace(hour=hour, minute=minute)
            is_cancelled = week in slot.get("cancelled_in", ())
            error = slot.get("fails_in", {}).get(str(week))
            if title := slot["titles"][week % len(slot["titles"])]:
                yield PlannedMeeting(title, start, slot, is_cancelled, error)


@frozen
class DemoHistory:
    """Writes what the account of a demo did in the past, until `now`."""

    past: Past
    demo: Demo
    now: datetime
    keys: dict[str, str] = field(factory=dict, repr=False)

    async def fill(self) -> None:
        """Write the past of an account that has no meeting yet.

        A step that is refused, because of other prices for example, is left out.
        """
        queries, account_id = self.past.application.ports.queries, self.demo.account_id
        if await queries.list_meetings(account_id, views.MeetingFilter(self.now), 1, None):
            return
        await self._move_in()
        for at, step in sorted(self._steps(), key=lambda each: each[0]):
            self.past.clock.at = at
            with suppress(DomainError):
                await step()
        self.past.clock.at = self.now
        await self.past.deliver()
        await self._leave()

    async def _move_in(self) -> None:
        """Add the members, the second key and the webhook of the first day."""
        app, account_id, now = self.past.application, self.demo.account_id, self.past.clock.at
        scopes, cap = tuple(keys.Scope), PLAN["cap"]
        mobile = await app.administration.keys.create(account_id, scopes, cap, name=_MOBILE)
        self.keys.update({DEMO_KEY: self.demo.key, _MOBILE: mobile.text})
        async with app.ports.store.begin() as tx:
            for one in PLAN["people"]:
                user = User(app.runtime.new_id(now), one["email"], one["name"], now)
                user, role = await tx.members.ensure_user(user), Role(one["role"])
                await tx.members.add_membership(Membership(account_id, user.id, role, now))
                origin = audit.ActionOrigin(audit.member_actor(user.id))
                await record_action(
                    tx, app.runtime, now, origin, "member.joined", account_id, user.id, role=role
                )
        wanted = Registration(parse_webhook_url(f"{self.demo.inbox_url}/shop"), tuple(EventKind), "Shop")
        await app.api.webhooks.register(await self._caller(DEMO_KEY), wanted, _ONCE, now)

    def _steps(self) -> Iterator[Step]:
        noon = self.now.astimezone(schedule.WIB).replace(hour=12, minute=0)
        for each in PLAN["purchase"]:
            yield noon + timedelta(days=each["day"]), partial(self._buy, each)
        for meeting in plan_meetings(self.now):
            yield meeting.made_at(self.now), partial(self._create, meeting)
            cancelled_at = meeting.start - _CANCELLED_BEFORE
            if meeting.is_cancelled and cancelled_at < self.now:
                yield cancelled_at, partial(self._cancel, meeting)
            elif meeting.end < self.now:
                yield meeting.start, partial(self._start, meeting)
                yield meeting.end, partial(self._end, meeting)

    async def _caller(self, key: str) -> Caller:
        found = await self.past.application.ports.queries.find_caller(keys.digest(self.keys[key]))
        assert found is not None
        return found

    async def _member(self, role: Role) -> SignedIn:
        """Return the first member with a role as one who has just signed in."""
        app, now, account = self.past.application, self.past.clock.at, (await self._caller(DEMO_KEY)).account
        members = await app.ports.queries.list_members(account.id)
        user = next(each.user for each in members if each.membership.role is role)
        session = sessions.Session(
            id=app.runtime.new_id(now), created_at=now, last_seen_at=now, authenticated_at=now,
            account_id=account.id, user_id=user.id,
        )  # fmt: skip
        return SignedIn(session, account, user, role)

    async def _buy(self, purchase: Mapping[str, Any]) -> None:
        if self.past.gateway is None:
            return
        who, form = await self._member(Role.FINANCE), SentForm("", self.past.clock.at)
        credits_by_hand = self.past.application.dashboard.credits
        bought = await credits_by_hand.buy(who, purchase["package"], None, form, "en")
        assert bought.record is not None
        self.past.clock.at += timedelta(minutes=4)
        await self.past.end_payment(UUID(str(bought.record["id"])), is_paid=purchase.get("is_paid", True))

    async def _create(self, meeting: PlannedMeeting) -> None:
        slot, start, now = meeting.slot, meeting.start, self.past.clock.at
        has_notes = slot.get("has_notes", False)
        wanted = meetings.MeetingRequest(
            meeting.title, f"{start:%Y-%m-%d}", f"{start:%H:%M}", slot["tier"],
            options=meetings.MeetingOptions(with_recording=has_notes, auto_notulen=has_notes),
        )  # fmt: skip
        if slot["by"] in self.keys:
            caller = await self._caller(slot["by"])
            made = await self.past.application.api.create_meeting(caller, wanted, _ONCE, now)
        else:
            who, by_hand = await self._member(Role(slot["by"])), self.past.application.dashboard.by_hand
            made = await by_hand.create_meeting(who, wanted, SentForm("", now))
        if made.record is not None:
            meeting.id = UUID(str(made.record["id"]))
            if meeting.error is not None:
                self.past.receiver.errors[meeting.id] = meeting.error

    async def _cancel(self, meeting: PlannedMeeting) -> None:
        if meeting.id is not None:
            caller, at = await self._caller(DEMO_KEY), self.past.clock.at
            await self.past.application.api.cancel_meeting(caller, meeting.id, _ONCE, at)

    async def _start(self, meeting: PlannedMeeting) -> None:
        if meeting.id is not None:
            await self.past.start_meeting(meeting.id)

    async def _end(self, meeting: PlannedMeeting) -> None:
        if meeting.id is not None:
            await self.past.end_meeting(self.demo.account_id, meeting.id)
        if meeting.error is not None:
            await self.past.deliver()  # before others: the webhook has worked again since

    async def _leave(self) -> None:
        """Leave the events of the printed lines to their webhooks, and note the use of the keys."""
        app, caller = self.past.application, await self._caller(DEMO_KEY)
        [endpoint] = await app.ports.queries.list_endpoints(caller.account.id, 2, None)
        await app.api.webhooks.update(caller, endpoint.id, EndpointChanges(_LATER_EVENTS), _ONCE)
        await app.ports.key_uses.save({(await self._caller(name)).key.id: self.now for name in self.keys})
