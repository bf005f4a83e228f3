"""Mails laid out: the same letter as plain text and as HTML, in which everything is escaped."""

from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from meetcore.adapters.mail_texts.letters import LetterWriter, one_line
from meetcore.domain.mails.contents import MailContent
from meetcore.domain.notes.notes import Language
from meetcore.ports.mail_texts import MailText

TEMPLATES: Final = Path(__file__).parent / "templates"


class TemplateMailTexts:
    """Writes mails of a site, such as `meet.example`."""

    def __init__(self, site: str) -> None:
        self._site = site
        environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=select_autoescape(["html"]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._text = environment.get_template("letter.txt")
        self._html = environment.get_template("letter.html")

    def write(self, content: MailContent, language: Language) -> MailText:
        letter = LetterWriter(self._site, language).write(content)
        values = {"letter": letter, "site": self._site, "language": language.value}
        return MailText(one_line(letter.subject), self._text.render(values), self._html.render(values))
