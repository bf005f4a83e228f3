"""The suite of the texts of mails, and that the catalogues translate every sentence and no other."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attrs import evolve
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po

from meetcore.adapters.mail_texts import TemplateMailTexts, letters
from meetcore.adapters.mail_texts.letters import CATALOGUES
from meetcore.adapters.memory.mail_texts import PlainMailTexts
from meetcore.domain.mails.contents import EndpointDisabled, Invitation, LowCredits, SignInLink
from meetcore.domain.notes.notes import Language
from meetcore.ports.mail_texts import MailTexts
from meetcore.testing.contracts import MailTextsContract
from meetcore.testing.contracts.mail_repository import CONTENTS

SITE = "meet.example"
AT = datetime(2026, 12, 31, 18, 5, tzinfo=UTC)
PLACE = re.compile(r"%\((\w+)\)s")


class TestPlainMailTexts(MailTextsContract):
    @pytest.fixture
    def texts(self) -> MailTexts:
        return PlainMailTexts()


class TestTemplateMailTexts(MailTextsContract):
    @pytest.fixture
    def texts(self) -> MailTexts:
        return TemplateMailTexts(SITE)


def messages() -> Iterator[str | tuple[str, ...]]:
    """Every message of the code, a plural as a pair."""
    keywords = {"_": None, "_plural": (1, 2)}
    for _, message, _, _ in extract_from_file("python", Path(letters.__file__), keywords=keywords):
        yield tuple(message) if isinstance(message, list | tuple) else message


@pytest.mark.parametrize("language", set(Language) - {Language.ENGLISH})
def test_every_message_is_translated_with_its_places(language: Language):
    with (CATALOGUES / f"{language.value}.po").open("rb") as source:
        catalogue = {message.id: message for message in read_po(source) if message.id}
    assert set(catalogue) == set(messages())
    for key, message in catalogue.items():
        for text in forms(message.string):
            assert text, key
            assert set(PLACE.findall(text)) == set(PLACE.findall(forms(key)[-1])), key


def forms(text: str | Sequence[str] | None) -> Sequence[str]:
    """The forms of a plural, or the one there is."""
    return [text or ""] if isinstance(text, str | None) else text


def test_times_are_those_of_jakarta_and_numbers_those_of_the_language():
    texts = TemplateMailTexts(SITE)
    link = SignInLink("https://meet.example/", AT)
    assert "until 1 January 2027, 01:05 WIB" in texts.write(link, Language.ENGLISH).text
    assert "sampai 1 Januari 2027, 01:05 WIB" in texts.write(link, Language.INDONESIAN).text
    low = LowCredits(1234, 5000, "https://meet.example/")
    assert "1,234 credits left" in texts.write(low, Language.ENGLISH).text
    assert "Tersisa 1.234 kredit" in texts.write(low, Language.INDONESIAN).text


def test_one_and_several_webhooks_are_told_apart():
    texts, disabled = TemplateMailTexts(SITE), CONTENTS[2]
    assert isinstance(disabled, EndpointDisabled)
    assert texts.write(disabled, Language.ENGLISH).subject == "2 webhooks were disabled"
    one = texts.write(evolve(disabled, urls=disabled.urls[:1]), Language.ENGLISH)
    assert one.subject == "A webhook was disabled"
    assert disabled.urls[0] in one.text
    assert "72 hours" in one.text


def test_a_name_without_end_does_not_make_a_subject_without_end():
    invitation = CONTENTS[1]
    assert isinstance(invitation, Invitation)
    written = TemplateMailTexts(SITE).write(evolve(invitation, invited_by="x " * 5000), Language.ENGLISH)
    assert len(written.subject) < 2 * letters.MAX_NAME
    assert written.text.startswith("x x ")


def test_a_letter_is_laid_out_as_it_is_read():
    text = TemplateMailTexts(SITE).write(SignInLink("https://meet.example/?a=1&b=2", AT), Language.ENGLISH)
    assert text.text == (
        "With this link you sign in to meet.example.\n"
        "It works once, in the browser that asked for it, until 1 January 2027, 01:05 WIB.\n"
        "\n"
        "Sign in:\n"
        "https://meet.example/?a=1&b=2\n"
        "\n"
        "If you did not ask for it, ignore this e-mail: without the link nobody gets in.\n"
        "\n"
        "If such e-mails keep coming, somebody else types your address: delete them, and tell who runs "
        "meet.example.\n"
        "\n"
        "-- \n"
        "meet.example"
    )
    assert 'href="https://meet.example/?a=1&amp;b=2"' in text.html
