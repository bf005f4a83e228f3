"""What an account has on this service: all of it as a file, and its erasure."""

from starlette.responses import Response, StreamingResponse

from meetcore.adapters.web.page import Page
from meetcore.adapters.web.pages.settings import show_with_errors
from meetcore.adapters.web.texts import _
from meetcore.adapters.web.visit import HEADERS, Visit
from meetcore.domain.members.roles import Action


@Page("POST", "/dashboard/settings/export", Action.EXPORT_ACCOUNT, needs_fresh=True)
async def export_account(visit: Visit) -> Response:
    """Everything of the account as an archive, streamed."""
    pieces = await visit.use.account_data.export.for_member(visit.signed_in, visit.client_address)
    name = f"account-{visit.signed_in.account.id}.zip"
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces, headers=headers, media_type="application/zip")


@Page("POST", "/dashboard/settings/erase", Action.ERASE_ACCOUNT, needs_fresh=True)
async def erase_account(visit: Visit) -> Response:
    """Erase the account, once its id was typed; every session of it ends."""
    account_id = visit.signed_in.account.id
    if visit.form.get("account_id", "").strip().lower() != str(account_id):
        problem = visit.text(_("This is not the id of the account. Nothing was erased."))
        return await show_with_errors(visit, {"account_id": problem})
    await visit.use.account_data.erase.for_member(visit.signed_in, visit.client_address)
    return visit.look.page(
        "message.html",
        heading=visit.text(_("The account is erased")),
        text=visit.text(
            _(
                "Every session, key and webhook has ended. Names, addresses and contents are erased within "
                "minutes; recordings go as soon as the video provider has removed them. The ledger stays, "
                "without names."
            )
        ),
        link="",
        link_text="",
    )
