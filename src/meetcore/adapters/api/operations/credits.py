"""The operations on credits: the balance, the ledger, and what a thing would cost (rules 1/credits and 4.1/5)."""

from datetime import datetime
from typing import assert_never

from meetcore.adapters.api import example_records as examples
from meetcore.adapters.api import lists
from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.bodies import EstimateBody, MeetingEstimateBody, NotulenEstimateBody
from meetcore.adapters.api.filters import instant, one_of
from meetcore.adapters.api.operation import Operation, OperationRequest, UseCases
from meetcore.adapters.api.paging import Listing, Named, slice_page
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.holds import is_sufficient
from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.money.pricing import Quote
from meetcore.domain.records import credits as records
from meetcore.domain.records.credits import credits_record, estimate_record, transaction_record
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.queries import CallerIncludes, TransactionFilter
from meetcore.usecases.estimate import Estimate


def _todays_usage(_: dict[str, str], now: datetime) -> CallerIncludes:
    return CallerIncludes(usage_on=cap_day(now))


@Operation(
    method="GET",
    path="/credits",
    scopes=(),
    rate_class=OperationClass.READ,
    includes=_todays_usage,
    record=records.CreditsRecord,
    summary="The balance, and what is left of the key's daily cap",
    about="`available` is what can be spent: work in progress holds the rest. `daily_cap` is null when the key has none.",
    for_agents="Use it to see what can still be spent: available is the balance less what work in progress "
    "holds, daily_cap what is left of this key's cap today.",
    example={
        "balance": 985,
        "held": 0,
        "available": 985,
        "daily_cap": {"cap": 200, "spent": 15, "remaining": 185, "resets_at": "2026-11-21T17:00:00Z"},
    },
)
async def get_credits(_: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/credits."""
    account, key = request.caller.account, request.caller.key
    assert request.caller.usage is not None
    return render_record(
        200, credits_record(account.balance, account.held, key.daily_cap, request.caller.usage)
    )


@Operation(
    method="GET",
    path="/credits/transactions",
    scopes=(Scope.CREDITS_READ,),
    rate_class=OperationClass.READ,
    listing=Listing(
        {
            "kind": one_of({kind.value: kind for kind in TransferKind}, "Only transactions of this kind."),
            "from": instant("Only transactions made then or later."),
            "to": instant("Only transactions made before."),
        },
        ranges=[("from", "to")],
        named_by=Named.NUMBER,
    ),
    record=lists.TransactionList,
    summary="List what moved credits, the newest first",
    about="A charge is below zero; a refund names the transaction that it `reverses`.",
    for_agents="Use it to explain the balance: every charge (below zero) and refund, the newest first; of a kind "
    "and of a range of days (WIB) where you ask for them.",
    example=examples.page_of(examples.CHARGE),
)
async def list_transactions(use: UseCases, request: OperationRequest) -> ApiResponse:
    page, given = request.page, request.page.filters
    before = None if page.after is None else int(page.after)
    wanted = TransactionFilter(given.get("kind"), given.get("from"), given.get("to"))
    found = await use.queries.list_transactions(request.caller.account.id, wanted, page.limit + 1, before)
    shown, cursor = slice_page(found, page, lambda one: one.number)
    return render_record(200, {"data": [transaction_record(one) for one in shown], "next_cursor": cursor})


@Operation(
    method="POST",
    path="/credits/estimate",
    scopes=(),
    rate_class=OperationClass.READ,
    includes=_todays_usage,
    body=EstimateBody,
    record=records.Estimate,
    refusals=("not_found", "unprocessable_entity"),
    summary="What a meeting or notes would cost",
    about="What it says is what is charged: of a meeting, the meeting and its recording. Notes, those of "
    "`auto_notulen` too, are a price of their own: `type` `notulen`, by the begun minute. `sufficient` is false where the "
    "credits or the key's cap would refuse it now.",
    for_agents="Use it before anything that costs. It charges nothing; what it says is what is charged, and "
    "sufficient says whether the credits and the key's cap allow it now. The price of a meeting does not hold its notes, "
    "not even with auto_notulen: estimate them with type notulen.",
    requests={
        "meeting": {"type": "meeting", "pricing_tier_id": "standard-100", "auto_notulen": True},
        "notulen": {"type": "notulen", "duration": 60},
    },
    example={
        "type": "meeting",
        "credits": 15,
        "items": [{"name": "meeting", "credits": 10}, {"name": "recording", "credits": 5}],
        "with_recording": True,
        "balance": 985,
        "sufficient": True,
    },
)
async def estimate_credits(use: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/estimate."""
    account, key, usage = request.caller.account, request.caller.key, request.caller.usage
    assert usage is not None
    quote = _quote(use.estimate, request.body)
    is_enough = is_sufficient(account.balance - account.held, usage.used, key.daily_cap, quote.credits)
    return render_record(
        200, estimate_record(request.body.type, quote, account.balance, is_sufficient=is_enough)
    )


def _quote(estimate: Estimate, body: MeetingEstimateBody | NotulenEstimateBody) -> Quote:
    match body:
        case MeetingEstimateBody():
            return estimate.meeting(body.pricing_tier_id, body.options)
        case NotulenEstimateBody():
            return estimate.notulen(body.duration)
        case _:  # pragma: no cover
            assert_never(body)
