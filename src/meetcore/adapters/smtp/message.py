"""A mail as RFC 5322 has it: the same text plain and as HTML, marked as sent by a program (RFC 3834)."""

from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from meetcore.domain.mails.senders import Sender
from meetcore.domain.requests.accounts import InvalidEmail, check_email
from meetcore.ports.mailer import MailRefused, OutgoingMail


def message_of(mail: OutgoingMail, sender: Sender) -> bytes:
    """Write the message; every attempt at a mail has the same `Message-ID` and `Date`.

    Raises:
        MailRefused: the recipient is no address, or the subject has a character that is not printed.
    """
    try:
        check_email(mail.recipient)
    except InvalidEmail as error:
        raise MailRefused("recipient") from error
    if not mail.subject.isprintable():
        raise MailRefused("subject")
    message = EmailMessage(policy=SMTP)
    message["From"] = Address(sender.name, addr_spec=sender.email)
    message["To"] = Address(addr_spec=mail.recipient)
    message["Subject"] = mail.subject
    message["Date"] = format_datetime(mail.created_at)
    message["Message-ID"] = f"<{mail.id}@{sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    # Quoted-printable: lines of any length, and no server has to know 8BITMIME.
    message.set_content(mail.text, cte="quoted-printable")
    message.add_alternative(mail.html, subtype="html", cte="quoted-printable")
    message["Content-Language"] = mail.language
    return message.as_bytes()
