"""The sentences of mails, in the languages of their readers."""

from typing import Protocol

from attrs import field, frozen

from meetcore.domain.mails.contents import MailContent
from meetcore.domain.notes.notes import Language

__all__ = ["MailText", "MailTexts"]


@frozen
class MailText:
    """A mail in words: a subject of one line, and the same text twice, plain and as a page of HTML."""

    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str = field(repr=False)


class MailTexts(Protocol):
    """Writes mails."""

    def write(self, content: MailContent, language: Language) -> MailText:
        """Write a mail.

        What others chose (names, URLs) is escaped in HTML, and breaks no line of the subject.
        """
