"""Whether mails are sent, by the settings and the packages that are there."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from typed_settings import SecretStr

from meetcore.adapters.mail_texts import TemplateMailTexts
from meetcore.adapters.memory.mailer import MemoryMailer
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.smtp import SmtpMailer
from meetcore.composition.mails import mail_ports, sends_mails
from meetcore.domain.mails.mails import MailLimits
from tests.support.program import environment

# A fresh interpreter in which the packages of the extra `web` are not found.
WITHOUT = """
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

EXTRA = ("aiosmtplib", "babel", "jinja2")

class WithoutExtra:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in EXTRA else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, WithoutExtra]

from typed_settings import SecretStr
from meetcore.adapters.memory.mailer import MemoryMailer
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.composition.mails import mail_ports
import meetcore.app, meetcore.cli.dev

print(mail_ports(Settings()), mail_ports(Settings(), MemoryMailer()))
try:
    mail_ports(Settings(smtp_url=SecretStr("smtp://127.0.0.1"), mail_from="a@b.example"))
except SettingsRefused as refused:
    print(refused)
"""
IMPORTED = """
import sys
import meetcore.app, meetcore.cli.main, meetcore.composition.infrastructure
print([name for name in ("aiosmtplib", "babel", "jinja2") if name in sys.modules])
"""


def settings(smtp_url: str = "", **values: Any) -> Settings:
    return Settings(smtp_url=SecretStr(smtp_url), **values)


def output_of(code: str) -> str:
    """What a fresh interpreter prints."""
    env = environment() | {"PYTHONPATH": "src:."}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_mail_server_no_mail_is_sent():
    assert not sends_mails(settings())
    assert mail_ports(settings()) is None


def test_a_mail_server_sends_mails_in_words():
    named = settings("smtp://127.0.0.1:1025", mail_from="A <a@b.example>", mails_per_account=7)
    assert sends_mails(named)
    ports = mail_ports(named)
    assert ports is not None
    assert isinstance(ports.mailer, SmtpMailer)
    assert isinstance(ports.texts, TemplateMailTexts)
    assert named.mail_limits == MailLimits(per_recipient=10, per_account=7)


def test_a_mailer_of_the_callers_takes_the_mails():
    mailer = MemoryMailer()
    ports = mail_ports(settings(), mailer)
    assert ports is not None
    assert ports.mailer is mailer


def test_a_mail_server_needs_a_sender():
    with pytest.raises(SettingsRefused, match="MEETCORE_MAIL_FROM is not"):
        sends_mails(settings("smtp://127.0.0.1:1025"))


def test_without_the_extra_all_else_is_there_and_a_mail_server_is_refused():
    first, second = output_of(WITHOUT).splitlines()
    assert first == "None None"
    assert second == "MEETCORE_SMTP_URL is set, which needs: pip install 'meetcore[server,web]'"


def test_importing_the_service_does_not_import_the_extra():
    assert output_of(IMPORTED) == "[]\n"
