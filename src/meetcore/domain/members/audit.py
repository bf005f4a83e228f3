"""The audit log: who changed what, when and from where.

An entry is written with its change and never changed. It holds no secret, and of the change only what a
reader needs to recognise it. The e-mail addresses of members and of those invited are not in it: they are
found by id when entries are shown, so that an erasure takes them away.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import Attribute, evolve, field, frozen

__all__ = [
    "INVITATION_ACTIONS",
    "MAX_DETAILS",
    "MAX_DETAIL_TEXT",
    "SERVICE",
    "ActionOrigin",
    "Actor",
    "ActorKind",
    "AuditEntry",
    "Detail",
    "member_actor",
    "with_addresses",
]

MAX_DETAILS: Final = 20
MAX_DETAIL_TEXT: Final = 1000
"""Characters of one text among the details."""

INVITATION_ACTIONS: Final = ("member.invited", "member.invitation_revoked")
"""Actions whose target is an invitation."""

_ACTION = re.compile(r"[a-z_]+(\.[a-z_]+)+", re.ASCII)

Detail = str | int | bool | None


class ActorKind(StrEnum):
    """What kind of actor changed something.

    A guest came by a portal link and is no member; the system is a user of the operator's machine, or the
    service itself.
    """

    MEMBER = "member"
    GUEST = "guest"
    OPERATOR = "operator"
    SYSTEM = "system"


@frozen
class Actor:
    """Who changed something. `id` is the member's, the guest's session's or the operator's.

    `name` is an operator's e-mail address, or the user's name on the operator's machine. A member's is found
    by the id when the entry is shown.
    """

    kind: ActorKind
    id: UUID | None
    name: str


def member_actor(user_id: UUID) -> Actor:
    """A member, as entries are written: without an address."""
    return Actor(ActorKind.MEMBER, user_id, ActorKind.MEMBER.value)


@frozen
class ActionOrigin:
    """Who asks for a change, and from which address. Impersonated: an operator in a customer's place."""

    actor: Actor
    client_address: str | None = None
    is_impersonated: bool = False


SERVICE: Final = ActionOrigin(Actor(ActorKind.SYSTEM, None, "meetcore"))
"""The service itself, where nobody asked."""


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
    """One change. `account_id` is `None` for what belongs to no account, such as a host.

    `action` is a dotted text such as `key.created`; `target_id` names what was changed.
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


def with_addresses(entry: AuditEntry, member: str | None, invited: str | None) -> AuditEntry:
    """Return an entry as it is shown.

    Args:
        entry: as it is stored.
        member: the address that the actor has now, if it is a member who is known.
        invited: the address of the invitation that the entry is about, if there is one.
    """
    if member is not None and entry.actor.kind is ActorKind.MEMBER:
        entry = evolve(entry, actor=evolve(entry.actor, name=member))
    if invited is not None and entry.action in INVITATION_ACTIONS:
        entry = evolve(entry, details={**entry.details, "email": invited})
    return entry
