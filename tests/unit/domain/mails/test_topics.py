"""The topics of mails that members choose."""

import pytest

from meetcore.domain.mails.topics import MailTopic, may_read, reads_by_default, topics_of
from meetcore.domain.members.roles import Role


@pytest.mark.parametrize("topic", MailTopic)
def test_who_gets_a_mail_by_default_may_read_what_it_says(topic: MailTopic) -> None:
    readers = {role for role in Role if reads_by_default(role, topic)}
    second = Role.DEVELOPER if topic is MailTopic.WEBHOOKS else Role.FINANCE
    assert readers == {Role.OWNER, second}
    assert all(may_read(role, topic) for role in readers)


def test_members_choose_among_what_their_role_allows() -> None:
    assert topics_of(Role.OWNER, {}) == dict.fromkeys(MailTopic, True)
    chosen = {MailTopic.CREDITS: True, MailTopic.PAYMENTS: True}
    assert topics_of(Role.VIEWER, chosen) == {MailTopic.CREDITS: True, MailTopic.WEBHOOKS: False}
    assert MailTopic.WEBHOOKS not in topics_of(Role.FINANCE, {})
    assert topics_of(Role.DEVELOPER, {})[MailTopic.WEBHOOKS], "by default"
