"""Mails: over SMTP to the server that the settings name, or to a mailer of the caller's.

The packages of mails are those of the extra `web`: imported where mails are sent, and nowhere else.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.composition.ports import MailPorts
from meetcore.domain.members.sign_ups import SignUpMode
from meetcore.ports.mailer import Mailer

if TYPE_CHECKING:
    from meetcore.adapters.smtp import SmtpMailer

_PACKAGES = ("aiosmtplib", "babel", "jinja2")


def sends_mails(settings: Settings, mailer: Mailer | None = None) -> bool:
    """Return whether mails are sent.

    Raises:
        SettingsRefused: a mail server is named, and who mails are from or a package is missing; or sign-up
            is not closed, and no mail can be sent.
    """
    settings.require_mail()
    has_packages = all(find_spec(name) is not None for name in _PACKAGES)
    if str(settings.smtp_url) and not has_packages:
        raise SettingsRefused("MEETCORE_SMTP_URL is set, which needs: pip install 'meetcore[server,web]'")
    is_on = has_packages and (mailer is not None or bool(str(settings.smtp_url)))
    if settings.sign_up != SignUpMode.CLOSED and not is_on:
        raise SettingsRefused(f"MEETCORE_SIGN_UP is {settings.sign_up}, which needs MEETCORE_SMTP_URL too")
    return is_on


def mail_ports(settings: Settings, mailer: Mailer | None = None) -> MailPorts | None:
    """Return the ports of a process that sends mails, if any are sent.

    Args:
        settings: which mail server.
        mailer: takes the mails instead of it.

    Raises:
        SettingsRefused: see `sends_mails`.
    """
    if not sends_mails(settings, mailer):
        return None
    from meetcore.adapters.mail_texts import TemplateMailTexts

    texts = TemplateMailTexts(urlsplit(settings.base_url).netloc)
    return MailPorts(smtp_mailer(settings) if mailer is None else mailer, texts)


def smtp_mailer(settings: Settings, timeout_s: float | None = None) -> "SmtpMailer":
    """Return a mailer to the mail server, with another time limit than usual if one is given."""
    from meetcore.adapters.smtp import TIMEOUT_S, SmtpMailer, server_from_url
    from meetcore.domain.mails.senders import parse_sender

    server = server_from_url(str(settings.smtp_url), settings.smtp_ca_file or None)
    return SmtpMailer(server, parse_sender(settings.mail_from), timeout_s=timeout_s or TIMEOUT_S)
