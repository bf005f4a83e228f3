"""Refusals of the domain in the languages of the pages: their messages, marked for the catalogues.

A text is a message with its values named; the English page shows the message as it is.
"""

import re
from functools import cache
from typing import Final

from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Look

TEXTS: Final = (
    _("An account needs an owner. Make another member an owner first."),
    _("%(number)s invitations are pending. Take one back first."),
    _("Before its first top-up an account makes %(number)s invitations a day. Go on tomorrow."),
    _("Too many invitations were mailed in the last hour. Try again later."),
    _("Write a name of 1 to %(most)s characters."),
    _("Write the name without a web or e-mail address, and a space after each full stop."),
    _("There can be %(number)s passkeys. Remove one that you do not use first."),
    _("This passkey is registered already."),
    _("a name is 1 to %(most)s characters of one line, not blank"),
    _("The account has %(number)s working API keys and connected programs. Revoke one first."),
    _("The key is revoked or expired. Make a new one."),
    _("This form was sent before, and its key was made. A key is shown once."),
    _("Meetings of this account are still to take place. Cancel them first: their credits come back."),
    _("Meetings or notes of this account are being made. Try again in a few minutes."),
    _("Another export is being made. Try again when it is done."),
    _("Credits are not sold here. Ask the operator of this service for a top-up."),
    _("The meeting has ended and cannot be cancelled."),
    _("cannot be had from the provider that runs the meetings"),
    _("These notes were changed meanwhile. Load them again."),
    _("There is a note on this recording in this language already: read that one."),
    _("must be %(least)s to %(most)s characters long"),
    _("must be at most %(most)s characters long"),
    _("must have a character that can be seen"),
    _("must not contain control characters or lone surrogates"),
    _("must not contain white space, control characters or lone surrogates"),
    _("must begin with https://"),
    _("must not have a fragment (#...)"),
    _("must name a host"),
    _("must not contain user information (user:password@)"),
    _("must use port 443"),
    _("must have a valid host name (labels of 1 to 63 letters, digits and hyphens)"),
    _("must have a host that is, or resolves to, public unicast addresses only"),
    _("The host %(host)s did not resolve."),
    _("The host %(host)s has no address."),
    _(
        "This account has %(number)s webhooks, and may have %(most)s. Delete one that you no longer need, or "
        "send several kinds of events to one URL."
    ),
    _("This URL is registered already."),
    _(
        "This webhook is paused: nothing is sent to it. Set is_active to true first, then ask again with a "
        "new Idempotency-Key."
    ),
    _(
        "This webhook is disabled: nothing is sent to it. Set is_active to true first, then ask again with a "
        "new Idempotency-Key."
    ),
    _("The request was answered, or has expired. Connect the program again."),
    _("since is in the future: nothing can have failed since then."),
    _("since is more than %(days)s days ago: events are not kept longer."),
)  # fmt: skip
"""The messages that forms of the dashboard are refused with."""


def translate_refusal(look: Look, message: str) -> str:
    """Translate the message of a refusal, its values as they stand; one of no text here stays in English."""
    for pattern, text in _patterns():
        if found := pattern.fullmatch(message):
            return look.text(text, **found.groupdict())
    return look.text(message)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    value = r"%\\\((\w+)\\\)s"
    return [(re.compile(re.sub(value, r"(?P<\1>.+)", re.escape(text))), text) for text in TEXTS]
