"""Settings of the account, sessions of the member, and the account's data: as a file, and its erasure."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.responses import Response

from meetcore.adapters.api.streams import PacedResponse
from meetcore.adapters.web.formats import NAMES
from meetcore.adapters.web.forms import attachment, explain
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import Page, Visit, see_other
from meetcore.domain.errors import InvalidRequest
from meetcore.domain.mails.topics import MailTopic
from meetcore.domain.members.roles import Action
from meetcore.domain.members.sessions import Session, is_view
from meetcore.domain.money.amounts import MAX_TYPED, read_amount
from meetcore.domain.money.transfers import InvalidAmount
from meetcore.domain.notes.notes import Language

ROOT: Final = "/dashboard/settings"
_TOPICS: Final[Mapping[MailTopic, str]] = {
    MailTopic.CREDITS: _("credits that run low"),
    MailTopic.PAYMENTS: _("payments: received, failed or expired"),
    MailTopic.STATEMENTS: _("monthly statements, where the account has them sent"),
    MailTopic.WEBHOOKS: _("webhooks that failures disabled"),
}
GUEST: Final = _("guest, by a link of the provider")
OPERATOR: Final = _("operator, who looks at this account")


@Page("GET", ROOT, Action.VIEW_SETTINGS)
async def show_settings(visit: Visit) -> Response:
    """Show the settings of the account, the sessions of the member, and to owners those of guests."""
    return await show_with_errors(visit, {})


@Page("POST", f"{ROOT}/threshold", Action.MANAGE_SETTINGS)
async def change_threshold(visit: Visit) -> Response:
    """Change the balance below which `credit.low` is sent."""
    text = visit.form.get("low_threshold", "")
    try:
        threshold = read_amount(text, visit.look.language, least=0, most=MAX_TYPED)
    except InvalidAmount:
        return await show_with_errors(
            visit, {"low_threshold": visit.text("Write a whole number of credits.")}
        )
    await visit.use.settings.set_low_threshold(visit.signed_in, visit.client_address, threshold)
    return see_other(f"{ROOT}?done=settings_changed")


@Page("POST", f"{ROOT}/statement-mails", Action.MANAGE_SETTINGS)
async def change_statement_mails(visit: Visit) -> Response:
    """Turn the monthly mail of statements to owners and finance on or off."""
    is_on = visit.form.get("statement_mails") == "on"
    await visit.use.settings.set_statement_mails(visit.signed_in, visit.client_address, is_on=is_on)
    return see_other(f"{ROOT}?done=settings_changed")


@Page("POST", f"{ROOT}/name", Action.VIEW_SETTINGS)
async def change_name(visit: Visit) -> Response:
    """Change the member's name."""
    try:
        await visit.use.settings.set_name(visit.signed_in, visit.form.get("full_name", ""))
    except InvalidRequest as refusal:
        return await show_with_errors(visit, explain(visit.look, refusal))
    return see_other(f"{ROOT}?done=settings_changed")


@Page("POST", f"{ROOT}/language", Action.VIEW_SETTINGS)
async def change_language(visit: Visit) -> Response:
    """Change the language of mails to the member."""
    language = visit.form.get("mail_language", "")
    if language in set(Language):
        await visit.use.settings.set_language(visit.signed_in, Language(language))
    return see_other(f"{ROOT}?done=settings_changed")


@Page("POST", f"{ROOT}/mails", Action.VIEW_SETTINGS)
async def change_topics(visit: Visit) -> Response:
    """Choose the topics of mails to the member."""
    chosen = [topic for topic in MailTopic if visit.form.get(topic.value) == "on"]
    await visit.use.settings.set_topics(visit.signed_in, chosen)
    return see_other(f"{ROOT}?done=settings_changed")


async def show_with_errors(visit: Visit, errors: Mapping[str, str]) -> Response:
    """Show the settings with the errors of a form."""
    user = visit.signed_in.user
    settings, topics = await visit.use.settings.find(visit.signed_in)
    return visit.form_page(
        "settings.html",
        errors,
        account=settings,
        low_threshold=visit.form.get("low_threshold", settings.low_threshold),
        sessions=await _sessions(visit),
        own_id=visit.signed_in.session.id,
        full_name=None if user is None else visit.form.get("full_name", user.full_name),
        mail_language=None if user is None else (user.language or visit.look.language).value,
        topics=[(topic.value, visit.text(_TOPICS[topic]), is_on) for topic, is_on in topics.items()],
        mail_languages=[(each.value, name) for each, name in NAMES.items()],
    )


async def _sessions(visit: Visit) -> Sequence[tuple[Session, str]]:
    """Return the sessions that the visitor can end, each with whose it is."""
    user = visit.signed_in.user
    email = "" if user is None else user.email
    return [
        (each, visit.text(OPERATOR if is_view(each) else GUEST) if each.user_id is None else email)
        for each in await visit.use.sessions.list_own(visit.signed_in)
        if isinstance(each, Session)
    ]


@Page("POST", "/dashboard/settings/export", Action.EXPORT_ACCOUNT, needs_fresh=True)
async def export_account(visit: Visit) -> Response:
    """Stream all data of the account as an archive."""
    pieces = await visit.use.account_data.export.for_member(visit.signed_in, visit.client_address)
    name = f"account-{visit.signed_in.account.id}.zip"
    return PacedResponse(pieces, attachment(name), "application/zip")


@Page("POST", "/dashboard/settings/erase", Action.ERASE_ACCOUNT, needs_fresh=True)
async def erase_account(visit: Visit) -> Response:
    """Erase the account, if its id was typed, and end every session."""
    account_id = visit.signed_in.account.id
    if visit.form.get("account_id", "").strip().lower() != str(account_id):
        problem = visit.text("This is not the id of the account. Nothing was erased.")
        return await show_with_errors(visit, {"account_id": problem})
    await visit.use.account_data.erase.for_member(visit.signed_in, visit.client_address)
    text = _(
        "Every session, key and webhook has ended. Names, addresses and contents are erased within minutes; "
        "recordings go as soon as the video provider has removed them. The ledger stays, without names."
    )
    return visit.look.message(_("The account is erased"), visit.text(text))
