"""The operations on credits: the balance, the ledger, and what a thing would cost (spec 1, 4.1 rule 5)."""

from datetime import datetime
from typing import assert_never

from attrs import frozen

from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.bodies import EstimateBody, MeetingEstimateBody, NotulenEstimateBody
from meetcore.adapters.api.filters import instant, one_of
from meetcore.adapters.api.operation import Call, Operation, UseCases
from meetcore.adapters.api.paging import Listing, Named, slice_page
from meetcore.domain.meetings.meetings import MeetingOptions
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.holds import is_sufficient
from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.money.pricing import Quote
from meetcore.domain.records import credits_record, estimate_record, transaction_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import CallerIncludes, TransactionFilter

__all__ = ["credit_operations"]

_FILTERS = {
    "kind": one_of({kind.value: kind for kind in TransferKind}, "Only transactions of this kind."),
    "from": instant("Only transactions made then or later."),
    "to": instant("Only transactions made before."),
}


def credit_operations(use: UseCases) -> tuple[Operation, ...]:
    """The operations on credits, bound to their use cases."""
    read, credits_ = OperationClass.READ, _Credits(use)
    return (
        Operation(
            "get_credits", "GET", "/credits", "The balance, and what is left of the key's daily cap", read,
            _show_credits, response="CreditsRecord", includes=_todays_usage,
        ),
        Operation(
            "list_transactions", "GET", "/credits/transactions", "List what moved credits, the newest first",
            read, credits_.list, (), 200, (Scope.CREDITS_READ,),
            response="TransactionList",
            listing=Listing(_FILTERS, ranges=[("from", "to")], named_by=Named.NUMBER),
        ),
        Operation(
            "estimate_credits", "POST", "/credits/estimate", "What a meeting or notes would cost", read,
            credits_.estimate, ("not_found", "unprocessable_entity"), body=EstimateBody, response="Estimate",
            includes=_todays_usage,
        ),
    )  # fmt: skip


def _todays_usage(_: dict[str, str], now: datetime) -> CallerIncludes:
    return CallerIncludes(usage_on=cap_day(now))


async def _show_credits(call: Call) -> ApiResponse:
    account, key = call.caller.account, call.caller.key
    assert call.caller.usage is not None
    return render_record(200, credits_record(account.balance, account.held, key.daily_cap, call.caller.usage))


@frozen
class _Credits:
    use: UseCases

    async def list(self, call: Call) -> ApiResponse:
        page, given = call.page, call.page.filters
        before = None if page.after is None else int(page.after)
        wanted = TransactionFilter(given.get("kind"), given.get("from"), given.get("to"))
        found = await self.use.queries.list_transactions(
            call.caller.account.id, wanted, page.limit + 1, before
        )
        shown, cursor = slice_page(found, page, lambda one: one.number)
        return render_record(200, {"data": [transaction_record(one) for one in shown], "next_cursor": cursor})

    async def estimate(self, call: Call) -> ApiResponse:
        account, key, usage = call.caller.account, call.caller.key, call.caller.usage
        assert usage is not None
        quote = self._quote(call.body)
        is_enough = is_sufficient(account.balance - account.held, usage.used, key.daily_cap, quote.credits)
        return render_record(
            200, estimate_record(call.body.type, quote, account.balance, is_sufficient=is_enough)
        )

    def _quote(self, body: MeetingEstimateBody | NotulenEstimateBody) -> Quote:
        match body:
            case MeetingEstimateBody():
                options = MeetingOptions(
                    body.with_recording,
                    body.auto_notulen,
                    body.must_login,
                    body.mic_off,
                    body.email_notification,
                )
                return self.use.estimate.meeting(body.pricing_tier_id, options)
            case NotulenEstimateBody():
                return self.use.estimate.notulen(body.duration)
            case _:  # pragma: no cover
                assert_never(body)
