"""The audit log: who changed what, when and from where.

An entry is written with its change and never changed. It holds no secret, and of the change only what a
reader needs to recognise it.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import Attribute, field, frozen

__all__ = [
    "MAX_DETAILS",
    "MAX_DETAIL_TEXT",
    "SERVICE",
    "ActionOrigin",
    "Actor",
    "ActorKind",
    "AuditEntry",
    "Detail",
]

MAX_DETAILS: Final = 20
MAX_DETAIL_TEXT: Final = 1000
"""Characters of one text among the details."""

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
    """Who changed something. `name` is an e-mail address, or the user's name on the operator's machine.

    `id` is the member's, the guest's session's or the operator's.
    """

    kind: ActorKind
    id: UUID | None
    name: str


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
