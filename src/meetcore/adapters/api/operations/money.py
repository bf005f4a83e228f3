"""The operations on the account, the tiers on sale and credits (spec 4.2, rules 1/credits and 4.1/5)."""

from datetime import datetime
from typing import assert_never

from meetcore.adapters.api import answers, bodies, examples, paging
from meetcore.adapters.api.operation import Operation, OperationRequest, UseCases
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money import holds, ledger
from meetcore.domain.money.pricing import Quote
from meetcore.domain.money.views import TransactionFilter
from meetcore.domain.records import accounts as records
from meetcore.domain.records.accounts import credits_record, estimate_record, tier_record, transaction_record
from meetcore.domain.requests import keys, rate_window
from meetcore.ports.queries import CallerIncludes
from meetcore.usecases.money.prices import Estimate


@Operation(
    method="GET",
    path="/me",
    scopes=(),
    record=records.Account,
    summary="Who the key belongs to, its scopes and the balance",
    about="A 200 means that the key is valid, not revoked and not expired.",
    for_agents="Use it first when another tool refuses: it shows whose key this is, which scopes it has and its "
    "daily cap of credits.",
    example=examples.ACCOUNT,
)
async def get_me(_: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rules 4.2/scope, 4.2/1, 4.2/2 and 5/6."""
    account, key = request.caller.account, request.caller.key
    record = records.Account(
        user=records.User(id=str(account.user_id), email=account.email, full_name=account.full_name),
        credits=records.Balance(balance=account.balance),
        api_key=records.Key(
            id=str(key.id), scopes=tuple(scope.value for scope in key.scopes), daily_credit_cap=key.daily_cap
        ),
    )
    return answers.render_record(200, record)


@Operation(
    method="GET",
    path="/pricing-tiers",
    scopes=(),
    listing=paging.Listing(named_by=paging.Named.SLUG),
    record=paging.TierList,
    summary="The pricing tiers on sale",
    about="Give a tier's `id` as `pricing_tier_id` to create a meeting.",
    for_agents="Use it before booking: it lists the tiers with seats, minutes and price. Give a tier's id "
    "as pricing_tier_id.",
    example=examples.page_of(examples.TIER),
)
async def list_pricing_tiers(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/pricing-tiers."""
    tiers, cursor = paging.page_of(use.catalogue.on_sale(), request.page, lambda tier: tier.id)
    return answers.render_record(200, {"data": [tier_record(tier) for tier in tiers], "next_cursor": cursor})


def _todays_usage(_: dict[str, str], now: datetime) -> CallerIncludes:
    return CallerIncludes(usage_on=cap_day(now))


@Operation(
    method="GET",
    path="/credits",
    scopes=(),
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
async def get_credits(_: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/credits."""
    account, key = request.caller.account, request.caller.key
    assert request.caller.usage is not None
    return answers.render_record(
        200, credits_record(account.balance, account.held, key.daily_cap, request.caller.usage)
    )


@Operation(
    method="GET",
    path="/credits/transactions",
    scopes=(keys.Scope.CREDITS_READ,),
    listing=paging.Listing(
        {
            "kind": paging.one_of(
                {kind.value: kind for kind in ledger.TransferKind}, "Only transactions of this kind."
            ),
            "from": paging.instant("Only transactions made then or later."),
            "to": paging.instant("Only transactions made before."),
        },
        ranges=[("from", "to")],
        named_by=paging.Named.NUMBER,
    ),
    record=paging.TransactionList,
    summary="List what moved credits, the newest first",
    about="A charge is below zero; a refund names the transaction that it `reverses`.",
    for_agents="Use it to explain the balance: every charge (below zero) and refund, the newest first; of a kind "
    "and of a range of days (WIB) where you ask for them.",
    example=examples.page_of(examples.CHARGE),
)
async def list_transactions(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    page, given = request.page, request.page.filters
    before = None if page.after is None else int(page.after)
    wanted = TransactionFilter(given.get("kind"), given.get("from"), given.get("to"))
    found = await use.queries.list_transactions(request.account_id, wanted, page.limit + 1, before)
    return paging.render_list(found, page, lambda one: one.number, transaction_record)


@Operation(
    method="POST",
    path="/credits/estimate",
    scopes=(),
    rate_class=rate_window.OperationClass.READ,
    includes=_todays_usage,
    body=bodies.EstimateBody,
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
async def estimate_credits(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    """Rule 1/op/estimate."""
    account, key, usage = request.caller.account, request.caller.key, request.caller.usage
    assert usage is not None
    quote = _quote(use.estimate, request.body)
    is_enough = holds.is_sufficient(account.balance - account.held, usage.used, key.daily_cap, quote.credits)
    return answers.render_record(
        200, estimate_record(request.body.type, quote, account.balance, is_sufficient=is_enough)
    )


def _quote(estimate: Estimate, body: bodies.MeetingEstimateBody | bodies.NotulenEstimateBody) -> Quote:
    match body:
        case bodies.MeetingEstimateBody():
            return estimate.meeting(body.pricing_tier_id, body.options)
        case bodies.NotulenEstimateBody():
            return estimate.notulen(body.duration)
        case _:  # pragma: no cover
            assert_never(body)
