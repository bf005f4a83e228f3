"""Refusals of the domain and faults of notes in the languages of the pages, marked for the catalogues.

A text is a message with its values named; the English page shows the message as it is.
"""

import re
from functools import cache
from typing import Final

from meetcore.adapters.catalogues import translations
from meetcore.adapters.web.formats import CATALOGUES
from meetcore.adapters.web.texts import _
from meetcore.domain.notes.notes import Language

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
    _("The meeting is being cancelled by another request."),
    _("The meeting is being cancelled by another request. Try again."),
    _("The meeting took too long to cancel. Try again."),
    _("The video provider did not answer. The cancellation is being looked into; a retry gets its result."),
    _("The video provider did not end the meeting. Nothing was refunded; try again."),
    _("The first request with this key is still in progress."),
    _("The first request is still in progress. Try again."),
    _("Other requests wait already for the result of the same request. Try again."),
    _("More of this recording has come and is being measured. Try again soon."),
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
    _("This delivery is past its retention."),
    _("The event of this delivery is past its retention."),
    _("since is in the future: nothing can have failed since then."),
    _("since is more than %(days)s days ago: events are not kept longer."),
    _("The account had too few credits for these notes. Top up and ask for them with POST /notes."),
    _(
        "The daily credit cap of the meeting's API key left no room for these notes. Ask for them tomorrow, "
        "or with another key, with POST /notes."
    ),
    _("The recording was deleted or is past its retention."),
    _(
        "The video provider delivered no recording of this meeting. Nothing was charged for the notes, and "
        "what was paid for the recording was given back."
    ),
    _("The video provider did not hand over the recording. Nothing was charged; try again later."),
    _("The recording's file cannot be read as audio or video."),
    _("No speech was found in the recording, so that there is nothing to note."),
    _(
        "The video provider wrote no transcript of this recording, and this service does not transcribe "
        "recordings itself. Nothing was charged."
    ),
    _(
        "The AI provider refused to work on this recording. Nothing was charged, and the same request is "
        "likely to be refused again."
    ),
    _("The AI provider did not answer for a long time. Nothing was charged; try again later."),
    _("The notes could not be made because of a fault at the service. Nothing was charged; try again."),
    _("It was erased, and nothing brings it back: open another one."),
    _("The reference %(reference)s belongs to a top-up of %(credits)s credits."),
    _("This reference belongs to an adjustment of %(credits)s credits."),
    _("The reference belongs to a proposal of another amount or reason."),
    _("A proposal of this reference was decided before."),
    _("This proposal was decided before."),
    _("This proposal has expired. Make another one."),
    _("Another operator has to decide: you made this proposal."),
    _("The account was erased. Send the money back at the gateway, and close the doubt."),
    _("Only a payment whose money arrived, and that is in doubt, can be accepted."),
    _("This payment is not in doubt."),
    _("Only a paid payment can be refunded, once; this one is %(state)s."),
    _(
        "The gateway failed to refund this payment. Send the money another way, and take the credits by an "
        "adjustment."
    ),
    _("So few credits come to no money."),
    _(
        "It was paid by %(gateway)s, which is not the gateway that is set. Send the money back there, and "
        "take the credits by an adjustment."
    ),
    _(
        "Money of it went back at the gateway, or is disputed, or another amount was paid. Send what is left "
        "back there, and take the credits by an adjustment."
    ),
)  # fmt: skip
"""The messages that forms are refused with, and those of notes that could not be made."""


def translate_refusal(language: Language, message: str) -> str:
    """Translate a message, its values as they stand; one of no text here stays in English."""
    texts = translations(CATALOGUES, language)
    if (found := _find(message)) is None:
        return texts.gettext(message)
    text, values = found
    return texts.gettext(text) % values if values else texts.gettext(text)


def has_text(message: str) -> bool:
    """Return whether a message has a text here."""
    return _find(message) is not None


def _find(message: str) -> tuple[str, dict[str, str]] | None:
    found = ((text, pattern.fullmatch(message)) for pattern, text in _patterns())
    return next(((text, match.groupdict()) for text, match in found if match), None)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    value = r"%\\\((\w+)\\\)s"
    return [(re.compile(re.sub(value, r"(?P<\1>.+)", re.escape(text))), text) for text in TEXTS]
