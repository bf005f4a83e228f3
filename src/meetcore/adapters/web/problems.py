"""Refusals of the domain as texts of a form: by field where they name fields, else for the form as a whole.

Codes with a text of their own are translated; what a message of the domain says beyond that stays English.
"""

from collections.abc import Mapping
from typing import Any, Final

from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Look
from meetcore.domain.errors import DomainError, NotFound
from meetcore.usecases.idempotency import Refusal

FORM: Final = "form"
"""The name under which a problem stands that belongs to no field."""

_TEXTS: Final[Mapping[str, str]] = {
    "insufficient_credits": _(
        "This needs %(required)s credits, and %(available)s are available. Top up first."
    ),
    "idempotency_key_reused": _("The form was sent before with other values. Load it again."),
    "rate_limited": _("Too many attempts. Wait a minute and try again."),
    "service_unavailable": _(
        "This cannot be done at the moment. Nothing was charged. Choose another time, or try again later."
    ),
    "upstream_error": _("The meeting provider did not answer. Nothing was charged. Try again in a minute."),
}

_START: Final = _("Choose a start between now and a year from now, in the time of Jakarta (WIB).")
"""For a start in the past and for one too far ahead."""


def explain(look: Look, refusal: DomainError | Refusal) -> dict[str, str]:
    """The texts of a refusal, by the field of the form that each belongs to.

    Raises:
        NotFound: the refusal is that one; what a form is about is missing, or another account's.
    """
    if refusal.code == NotFound.code:
        raise NotFound(refusal.message)
    details: Mapping[str, Any] = refusal.details
    if fields := details.get("fields"):
        listed = {name: "; ".join(problems) for name, problems in fields.items()}
        return {name: look.text(problem) for name, problem in listed.items()}
    if text := _TEXTS.get(refusal.code):
        return {FORM: look.text(text, **details)}
    if "start_at" in details:
        return {"start_time": look.text(_START)}
    return {FORM: look.text(refusal.message)}
