"""The topics of mails that members choose for themselves: who may read them, and who does by default."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from meetcore.domain.members.roles import Action, Role, is_allowed


class MailTopic(StrEnum):
    """What mails to the members of an account are about."""

    CREDITS = "credits"
    PAYMENTS = "payments"
    STATEMENTS = "statements"
    WEBHOOKS = "webhooks"


_ACTIONS: Final[Mapping[MailTopic, Action]] = {
    MailTopic.CREDITS: Action.VIEW_LEDGER,
    MailTopic.PAYMENTS: Action.BUY_CREDITS,
    MailTopic.STATEMENTS: Action.VIEW_STATEMENTS,
    MailTopic.WEBHOOKS: Action.VIEW_WEBHOOKS,
}
"""The action that a reader's role must allow: a mail says no more than the pages."""


def may_read(role: Role, topic: MailTopic) -> bool:
    """Return whether members of a role can choose mails of a topic."""
    return is_allowed(role, _ACTIONS[topic])


def reads_by_default(role: Role, topic: MailTopic) -> bool:
    """Return whether members of a role get mails of a topic until they choose."""
    return role is Role.OWNER or role is (Role.DEVELOPER if topic is MailTopic.WEBHOOKS else Role.FINANCE)


def topics_of(role: Role, choices: Mapping[MailTopic, bool]) -> dict[MailTopic, bool]:
    """Return the topics that a member can choose, each with whether the member gets its mails."""
    return {
        topic: choices.get(topic, reads_by_default(role, topic))
        for topic in MailTopic
        if may_read(role, topic)
    }
