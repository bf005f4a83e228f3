"""What an error of SMTP means for the mail: later again, or never.

Refused for ever is only what is about this recipient or this message: a 5xx to RCPT or DATA. Anything else
can be mended by the operator or passes by itself: a login, a sender or a policy that refuses us, TLS, time.
"""

import re
import ssl

import aiosmtplib

from meetcore.ports.mailer import MailRefused, MailUnavailable

# RFC 3463, at the beginning of the text: "5.1.1 no such user".
_ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3}\b")
# A login is wanted, or its mechanism is not enough: RFC 4954.
_LOGIN_CODES = frozenset({530, 534, 535, 538})
_POLICY = "5.7."


def translated(error: Exception) -> MailUnavailable | MailRefused:
    """Return an error of the port, whose message is a short code."""
    if not isinstance(error, aiosmtplib.SMTPResponseException):
        return MailUnavailable(_code_of(error))
    enhanced = _ENHANCED.match(error.message)
    code = f"{error.code} {enhanced[0]}" if enhanced else str(error.code)
    is_final = 500 <= error.code < 600 and error.code not in _LOGIN_CODES
    match error:
        case aiosmtplib.SMTPRecipientRefused() if is_final and not (enhanced and _is_policy(enhanced[0])):
            return MailRefused(code)
        case aiosmtplib.SMTPDataError() if is_final:
            return MailRefused(code)
        case _:
            return MailUnavailable(code)


def _is_policy(enhanced: str) -> bool:
    # Such as a server that relays nothing for who has not logged in.
    return enhanced.startswith(_POLICY)


def _code_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
        return "tls"
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, aiosmtplib.SMTPServerDisconnected):
        return "disconnected"
    return "connect" if isinstance(error, OSError) else "unsupported"
