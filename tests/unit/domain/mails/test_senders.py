"""Who mails are from: an address, perhaps with a name, and nothing that could be another header."""

import pytest

from meetcore.domain.mails.senders import Sender, parse_sender


@pytest.mark.parametrize(
    ("text", "sender"),
    [
        ("mail@meet.example", Sender("mail@meet.example")),
        (" mail@meet.example ", Sender("mail@meet.example")),
        ("<mail@meet.example>", Sender("mail@meet.example")),
        ("Rapat Kita <mail@meet.example>", Sender("mail@meet.example", "Rapat Kita")),
        ("Émile, PT. <mail@meet.example>", Sender("mail@meet.example", "Émile, PT.")),
    ],
)
def test_a_sender_is_an_address_perhaps_with_a_name(text: str, sender: Sender):
    assert parse_sender(text) == sender
    assert sender.domain == "meet.example"


@pytest.mark.parametrize(
    "text",
    [
        "", "mail", "A <mail>", "A <mail@meet.example", "A mail@meet.example>", '"A" <mail@meet.example>',
        "A <mail@meet.example>\r\nBcc: b@example.com", "A\n<mail@meet.example>",
        "<a@b.example> <c@d.example>",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str):
    with pytest.raises(ValueError):
        parse_sender(text)


def test_a_control_character_is_named_as_the_reason():
    with pytest.raises(ValueError, match=r"^a sender has no control characters$"):
        parse_sender("A <mail@meet.example>\nBcc: b@example.com")
