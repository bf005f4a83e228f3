"""Hints beside the content of a page: what needs attention, and where it is dealt with."""

from attrs import frozen

from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Visit
from meetcore.domain.members.roles import Action
from meetcore.usecases.mails import CREDITS_PAGE


@frozen
class Hint:
    """Something that needs attention, with the page where it is dealt with; `kind` is that of a notice."""

    text: str
    path: str
    link: str
    kind: str = "warn"


def buy_hint(visit: Visit, text: str, kind: str = "warn") -> Hint:
    """Add to a translated text how credits are got: to those who cannot buy them, whom to ask."""
    if not visit.may(Action.BUY_CREDITS):
        ask = visit.text("An owner of the account, or a member with the role Finance, can buy credits.")
        return Hint(f"{text} {ask}", CREDITS_PAGE, visit.text("Credits"), kind)
    is_open = visit.use.credits.show_shop(visit.signed_in, visit.now).is_open
    link = _("Buy credits") if is_open else _("How to get credits")
    return Hint(text, CREDITS_PAGE, visit.text(link), kind)
