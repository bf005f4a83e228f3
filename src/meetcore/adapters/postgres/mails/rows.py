"""Mails as rows: their columns, the content one sealed document."""

from uuid import UUID

import msgspec
import structlog

from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.domain.mails.contents import CONTENT_OF
from meetcore.domain.mails.mails import Mail
from meetcore.ports.cipher import Cipher, CipherRefused

log = structlog.get_logger("meetcore.postgres")

MAIL = Columns(Mail, "m", "mail_", without=("content", "due_at"))
MAIL_COLUMNS = f"{MAIL.select}, m.due_at AS mail_due_at, m.content AS mail_content"

_CONTEXT = "mails/{mail_id}/content"


def mail_context(mail_id: UUID) -> str:
    """What the content of a mail is sealed for."""
    return _CONTEXT.format(mail_id=mail_id)


_decoders = {kind: msgspec.json.Decoder(content) for kind, content in CONTENT_OF.items()}


def mail(row: Row, cipher: Cipher) -> Mail | None:
    """A mail that is not over; `None`, logged, where its content does not open: other mails are unaffected."""
    try:
        document = cipher.open(row["mail_content"], _CONTEXT.format_map(row))
        content = _decoders[row["mail_kind"]].decode(document)
    except (CipherRefused, msgspec.DecodeError, KeyError):
        log.exception("mail does not open", mail_id=str(row["mail_id"]))
        return None
    return MAIL.read(row, due_at=utc(row["mail_due_at"]), content=content)


def mail_parameters(mail: Mail, cipher: Cipher) -> Row:
    """The parameters of a mail's columns. One that is over has no content."""
    found = MAIL.parameters(mail) | {"mail_due_at": mail.due_at, "mail_content": None}
    if mail.content is not None:
        found["mail_content"] = cipher.seal(msgspec.json.encode(mail.content), _CONTEXT.format_map(found))
    return found
