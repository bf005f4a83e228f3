"""Who mails are from, as an operator writes it: `mail@example.com` or `Meetcore <mail@example.com>`."""

import re

from attrs import frozen

from meetcore.domain.requests.accounts import check_email

__all__ = ["Sender", "parse_sender"]

_NAMED = re.compile(r'([^<>"]*)<([^<>]*)>')


@frozen
class Sender:
    """The address that mails are from, and the name beside it, which may be empty."""

    email: str
    name: str = ""

    @property
    def domain(self) -> str:
        """The domain of the address."""
        return self.email.rpartition("@")[2]


def parse_sender(text: str) -> Sender:
    """Read a sender.

    Raises:
        ValueError: it is neither an address nor a name with an address in angle brackets.
    """
    if not text.isprintable():
        raise ValueError("a sender has no control characters")
    named = _NAMED.fullmatch(text.strip())
    if named is None:
        return Sender(check_email(text.strip()))
    return Sender(check_email(named[2].strip()), named[1].strip())
