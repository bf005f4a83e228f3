"""The suite of the texts of mails."""

import pytest

from meetcore.adapters.memory.mail_texts import PlainMailTexts
from meetcore.ports.mail_texts import MailTexts
from meetcore.testing.contracts import MailTextsContract


class TestPlainMailTexts(MailTextsContract):
    @pytest.fixture
    def texts(self) -> MailTexts:
        return PlainMailTexts()
