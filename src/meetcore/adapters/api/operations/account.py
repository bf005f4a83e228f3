"""The operations on the caller's account and on the tiers on sale (spec 4.2)."""

from meetcore.adapters.api import example_records as examples
from meetcore.adapters.api import lists
from meetcore.adapters.api.answers import ApiResponse, render_record
from meetcore.adapters.api.operation import Operation, OperationRequest, UseCases
from meetcore.adapters.api.paging import Listing, Named, page_of
from meetcore.domain.records import accounts as records
from meetcore.domain.records.credits import tier_record
from meetcore.domain.requests.rate_window import OperationClass


@Operation(
    method="GET",
    path="/me",
    scopes=(),
    rate_class=OperationClass.READ,
    record=records.Account,
    summary="Who the key belongs to, its scopes and the balance",
    about="A 200 means that the key is valid, not revoked and not expired.",
    for_agents="Use it first when another tool refuses: it shows whose key this is, which scopes it has and its "
    "daily cap of credits.",
    example=examples.ACCOUNT,
)
async def get_me(_: UseCases, request: OperationRequest) -> ApiResponse:
    """Rules 4.2/scope, 4.2/1, 4.2/2 and 5/6."""
    account, key = request.caller.account, request.caller.key
    record = records.Account(
        user=records.User(id=str(account.user_id), email=account.email, full_name=account.full_name),
        credits=records.Balance(balance=account.balance),
        api_key=records.Key(
            id=str(key.id),
            scopes=tuple(scope.value for scope in key.scopes),
            daily_credit_cap=key.daily_cap,
        ),
    )
    return render_record(200, record)


@Operation(
    method="GET",
    path="/pricing-tiers",
    scopes=(),
    rate_class=OperationClass.READ,
    listing=Listing(named_by=Named.SLUG),
    record=lists.TierList,
    summary="The pricing tiers on sale",
    about="Give a tier's `id` as `pricing_tier_id` to create a meeting.",
    for_agents="Use it before booking: it lists the tiers with seats, minutes and price. Give a tier's id "
    "as pricing_tier_id.",
    example=examples.page_of(examples.TIER),
)
async def list_pricing_tiers(use: UseCases, request: OperationRequest) -> ApiResponse:
    """Rule 1/op/pricing-tiers."""
    tiers, cursor = page_of(use.catalogue.on_sale(), request.page, lambda tier: tier.id)
    return render_record(200, {"data": [tier_record(tier) for tier in tiers], "next_cursor": cursor})
