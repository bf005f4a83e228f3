"""Whether mails are sent, by the settings and the packages that are there."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from meetcore.adapters.mail_texts import TemplateMailTexts
from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused
from meetcore.adapters.smtp import SmtpMailer
from meetcore.composition.application import MailPorts
from meetcore.composition.plugins import ServiceParts
from meetcore.composition.providers import mail_ports, name_in_mails, sends_mails
from meetcore.domain.mails.contents import SignInLink
from meetcore.domain.notes.notes import Language
from meetcore.ports.mails import Mailer
from tests.support.fakes import FakeMailer
from tests.support.interpreter import output_of

PRICES = Path(__file__).parents[2] / "fixtures/prices.toml"
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


def test_mails_name_their_sender_or_the_seller_or_the_host_without_its_port():
    prices, base_url = str(PRICES), "https://meet.example:8443"
    for chosen, name in (
        (settings(base_url=base_url, tiers_file=prices, mail_from="Rapat <a@b.example>"), "Rapat"),
        (settings(base_url=base_url, tiers_file=prices, mail_from="a@b.example"), "PT Rapat Daring"),
        (settings(base_url=base_url), "meet.example"),
    ):
        assert name_in_mails(chosen) == name
    ports = ports_of(settings(tiers_file=prices), FakeMailer())
    assert ports is not None
    link = SignInLink("https://meet.example/", datetime(2027, 1, 1, tzinfo=UTC))
    mail = ports.texts.write(link, Language.ENGLISH)
    assert mail.text.endswith("-- \nPT Rapat Daring\nJl. Melati 1, Bandung")
    assert "PT Rapat Daring<br>Jl. Melati 1, Bandung" in mail.html


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
