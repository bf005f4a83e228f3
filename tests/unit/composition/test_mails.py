"""Whether mails are sent, by the settings and the packages that are there."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from meetcore.adapters.mail_texts import TemplateMailTexts
from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused
from meetcore.adapters.smtp import SmtpMailer
from meetcore.composition.application import MailPorts
from meetcore.composition.plugins import ServiceParts
from meetcore.composition.providers import mail_ports, sends_mails
from meetcore.ports.mails import Mailer
from tests.support.fakes import FakeMailer
from tests.support.interpreter import output_of

EXTRA = ("aiosmtplib", "babel", "jinja2")
REFUSE = """
from meetcore.adapters.settings import SecretStr
from tests.support.fakes import FakeMailer
from meetcore.adapters.settings import Settings, SettingsRefused
from contextlib import AsyncExitStack
from meetcore.composition.plugins import ServiceParts
from meetcore.composition.providers import mail_ports
import meetcore.app, meetcore.cli.dev

def ports(settings, mailer=None):
    return mail_ports(ServiceParts(settings), AsyncExitStack(), mailer)

print(ports(Settings()), ports(Settings(), FakeMailer()))
try:
    ports(Settings(smtp_url=SecretStr("smtp://127.0.0.1"), mail_from="a@b.example"))
except SettingsRefused as refused:
    print(refused)
"""
IMPORTED = """
import meetcore.app, meetcore.cli.main, meetcore.composition.infrastructure
print([name for name in ("aiosmtplib", "babel", "jinja2") if name in sys.modules])
"""


def settings(smtp_url: str = "", **values: Any) -> Settings:
    return Settings(smtp_url=SecretStr(smtp_url), **values)


def ports_of(chosen: Settings, mailer: Mailer | None = None) -> MailPorts | None:
    return mail_ports(ServiceParts(chosen), AsyncExitStack(), mailer)


def test_without_a_mail_server_no_mail_is_sent():
    assert not sends_mails(settings())
    assert ports_of(settings()) is None


def test_a_mail_server_sends_mails_in_words():
    named = settings("smtp://127.0.0.1:1025", mail_from="A <a@b.example>")
    assert sends_mails(named)
    ports = ports_of(named)
    assert ports is not None
    assert isinstance(ports.mailer, SmtpMailer)
    assert isinstance(ports.texts, TemplateMailTexts)


def test_a_mailer_of_the_callers_takes_the_mails():
    mailer = FakeMailer()
    ports = ports_of(settings(), mailer)
    assert ports is not None
    assert ports.mailer is mailer


def test_a_mail_server_needs_a_sender():
    with pytest.raises(SettingsRefused, match="MEETCORE_MAIL_FROM is not"):
        sends_mails(settings("smtp://127.0.0.1:1025"))


def test_without_the_extra_all_else_is_there_and_a_mail_server_is_refused():
    first, second = output_of(REFUSE, lacks=EXTRA).splitlines()
    assert first == "None None"
    assert second == "MEETCORE_SMTP_URL is set, which needs: pip install 'meetcore[server,web]'"


def test_importing_the_service_does_not_import_the_extra():
    assert output_of(IMPORTED) == "[]\n"
