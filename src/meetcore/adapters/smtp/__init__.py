"""Mails over SMTP, with TLS to any server but one on this machine.

- ``server``: where the mail server is, and how the way to it is secured
- ``message``: a mail as RFC 5322 has it
- ``errors``: what an error means for the mail: later again, or never
- ``mailer``: one connection for each mail
"""

from meetcore.adapters.smtp.mailer import TIMEOUT_S, SmtpMailer
from meetcore.adapters.smtp.server import Security, SmtpServer, server_from_url

__all__ = ["TIMEOUT_S", "Security", "SmtpMailer", "SmtpServer", "server_from_url"]
