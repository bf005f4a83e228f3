"""The audit log: every change with its actor, time and client address.

An entry is written with its change and never changed. It holds no secret, and of the change only the fields
that identify it. The e-mail addresses of members and of invitations and the titles of meetings are not in it:
they are looked up by id when entries are shown, so that an erasure removes them.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from attrs import Attribute, evolve, field, frozen

MAX_DETAILS: Final = 20
MAX_DETAIL_TEXT: Final = 1000
"""Characters of one text among the details."""

INVITATION_ACTIONS: Final = ("member.invited", "member.invitation_revoked")
"""Actions whose target is an invitation."""
MEETING_ACTIONS: Final = ("meeting.created", "meeting.cancelled", "meeting.ended")
"""Actions by hand whose target is a meeting."""
REFUSED: Final = "session.refused"
"""The action whose target is whom a refused sign-in was for: a user, an operator, a link or an invitation."""
REPEATS_IN_A_WINDOW: Final = 10
"""Entries of one action for one subject in a window of `sign_in`, of actions that can be repeated at will."""

_REPEATS: Final = uuid5(NAMESPACE_URL, "meetcore:audit")

_ACTION = re.compile(r"[a-z_]+(\.[a-z_]+)+", re.ASCII)

Detail = str | int | bool | None


class ActorKind(StrEnum):
    """The kind of an actor: a guest came by a portal link; the system is the service or a user beside it."""

    MEMBER = "member"
    GUEST = "guest"
    OPERATOR = "operator"
    SYSTEM = "system"


@frozen
class Actor:
    """The author of a change. `id` is the member's, the guest's session's or the operator's.

    `name` is an operator's e-mail address, or the user's name on the operator's machine. A member's is looked
    up by the id when the entry is shown.
    """

    kind: ActorKind
    id: UUID | None
    name: str


def member_actor(user_id: UUID) -> Actor:
    """Return a member as entries are written: without an address."""
    return Actor(ActorKind.MEMBER, user_id, ActorKind.MEMBER.value)


def guest_actor(session_id: UUID, role: object) -> Actor:
    """Return a guest, known by the session alone."""
    return Actor(ActorKind.GUEST, session_id, f"guest ({role})")


def operator_actor(operator_id: UUID, email: str) -> Actor:
    """Return an operator as entries are written: with the e-mail address."""
    return Actor(ActorKind.OPERATOR, operator_id, email)


@frozen
class ActionOrigin:
    """The author of a request and the client address. Impersonated: an operator in a customer's place."""

    actor: Actor
    client_address: str | None = None
    is_impersonated: bool = False

    @property
    def member_id(self) -> UUID | None:
        """The user of the acting member, if the actor is one."""
        return self.actor.id if self.actor.kind is ActorKind.MEMBER else None


SERVICE: Final = ActionOrigin(Actor(ActorKind.SYSTEM, None, "meetcore"))
"""The service itself, without a request."""


def _check_action(entry: "AuditEntry", _: "Attribute[str]", action: str) -> None:
    if not _ACTION.fullmatch(action):
        raise ValueError(f"an action reads key.created, not {action!r}")


def _check_details(
    entry: "AuditEntry", _: "Attribute[Mapping[str, Detail]]", details: Mapping[str, Detail]
) -> None:
    too_long = [
        name for name, value in details.items() if isinstance(value, str) and len(value) > MAX_DETAIL_TEXT
    ]
    if len(details) > MAX_DETAILS or too_long:
        raise ValueError(f"an entry has {MAX_DETAILS} details of {MAX_DETAIL_TEXT} characters at most")


@frozen
class AuditEntry:
    """One change. `account_id` is `None` without an account, as for a host.

    `action` is a dotted text such as `key.created`; `target_id` names the changed record.
    """

    id: UUID
    at: datetime
    account_id: UUID | None
    actor: Actor
    action: str = field(validator=_check_action)
    target_id: str
    details: Mapping[str, Detail] = field(factory=dict, validator=_check_details)
    client_address: str | None = None
    is_impersonated: bool = False


def repeat_counter(action: str, subject: object) -> UUID:
    """Return the id under which the repetitions of an action for a subject are counted."""
    return uuid5(_REPEATS, f"{action} {subject}")


def as_shown(entry: AuditEntry, member: str | None, target: str | None, title: str | None) -> AuditEntry:
    """Return an entry with the addresses of a known member and its target, and its meeting's title."""
    if member is not None and entry.actor.kind is ActorKind.MEMBER:
        entry = evolve(entry, actor=evolve(entry.actor, name=member))
    if target is not None and entry.action in (*INVITATION_ACTIONS, REFUSED):
        entry = evolve(entry, details={**entry.details, "email": target})
    if title is not None and entry.action in MEETING_ACTIONS:
        entry = evolve(entry, details={"title": title, **entry.details})
    return entry
