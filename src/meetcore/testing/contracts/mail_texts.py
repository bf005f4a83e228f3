"""Texts of mails: every kind in every language, with what its reader needs, and all of it escaped."""

import pytest
from attrs import evolve

from meetcore.domain.mails.contents import EndpointDisabled, Invitation, MailContent
from meetcore.domain.notes.notes import Language
from meetcore.ports.mail_texts import MailTexts
from meetcore.testing.contracts.mail_repository import CONTENTS

_HOSTILE = "<img src=x onerror=alert(1)>\r\nBcc: a@example.com & \"'"


class MailTextsContract:
    """What `ports.mail_texts.MailTexts` promises.

    Give it the fixture `texts`, a `MailTexts`.
    """

    @pytest.mark.parametrize("language", Language)
    @pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
    def test_every_kind_is_written_in_every_language(
        self, texts: MailTexts, content: MailContent, language: Language
    ) -> None:
        written = texts.write(content, language)
        assert written.subject
        assert written.subject.isprintable()
        url: str = getattr(content, "url", "") or getattr(content, "page_url", "")
        for body in (written.text, written.html):
            assert url in body

    @pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
    def test_languages_differ(self, texts: MailTexts, content: MailContent) -> None:
        assert len({texts.write(content, language).subject for language in Language}) == len(Language)

    @pytest.mark.parametrize("language", Language)
    def test_what_others_chose_is_escaped_and_breaks_no_subject(
        self, texts: MailTexts, language: Language
    ) -> None:
        invitation, disabled = CONTENTS[1], CONTENTS[2]
        assert isinstance(invitation, Invitation)
        assert isinstance(disabled, EndpointDisabled)
        for content in (
            evolve(invitation, account_name=_HOSTILE, invited_by=_HOSTILE),
            evolve(disabled, urls=(_HOSTILE,)),
        ):
            written = texts.write(content, language)
            assert written.subject.isprintable()
            assert "<img" not in written.html
            assert "&lt;img" in written.html
