"""Texts of mails without templates: the fields of a mail, line by line."""

from html import escape

from attrs import asdict

from meetcore.domain.mails.contents import MailContent, kind_of
from meetcore.domain.notes.notes import Language
from meetcore.ports.mail_texts import MailText


class PlainMailTexts:
    """Names the fields of a mail. The language is part of the subject."""

    def write(self, content: MailContent, language: Language) -> MailText:
        lines = []
        for name, value in asdict(content).items():
            lines.append(f"{name}: {' '.join(value) if isinstance(value, tuple) else value}")
        html = "".join(f"<p>{escape(line)}</p>" for line in lines)
        return MailText(f"{kind_of(content).value} ({language.value})", "\n".join(lines), html)
