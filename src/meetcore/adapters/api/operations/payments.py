"""The operations on payments for credits (api.md, Credits)."""

from meetcore.adapters.api import answers, bodies, examples, paging
from meetcore.adapters.api.operation import ITS_ID, Operation, OperationRequest, UseCases
from meetcore.domain.errors import Unprocessable, require_record
from meetcore.domain.ids import parse_id
from meetcore.domain.payments.packages import CreditOrder, CreditPackage
from meetcore.domain.records import payments as records
from meetcore.domain.records.payments import package_record, payment_record
from meetcore.domain.requests import keys, rate_window
from meetcore.usecases.requests.idempotency import Outcome


@Operation(
    method="GET",
    path="/credit-packages",
    scopes=(),
    listing=paging.Listing(named_by=paging.Named.SLUG),
    record=paging.PackageList,
    summary="The packages of credits on sale",
    about="`amount` is what is to be paid, with the `tax` in it. The list is empty where this service sells no credits "
    "online.",
    for_agents="Use it before start_topup: it lists the packages of credits with their prices.",
    example=examples.page_of(examples.PACKAGE),
)
async def list_credit_packages(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    start = use.start_payment
    on_sale = start.packages.on_sale(request.now) if start.gateway is not None else ()

    def shown(package: CreditPackage) -> records.CreditPackage:
        return package_record(package, start.packages.order_package(package.id, request.now))

    found, cursor = paging.page_of(on_sale, request.page, lambda package: package.id)
    return answers.render_record(200, {"data": [shown(each) for each in found], "next_cursor": cursor})


@Operation(
    method="POST",
    path="/credits/topups",
    scopes=(keys.Scope.CREDITS_WRITE,),
    rate_class=rate_window.OperationClass.CREDIT,
    body=bodies.TopupBody,
    record=records.Topup,
    success=201,
    refusals=("not_found", "unprocessable_entity", "upstream_error"),
    links={"get_topup": ITS_ID},
    reaches_out=True,
    summary="Start a payment for credits",
    about="Open `payment_url` in a browser: a person pays there, at the payment gateway. The credits are there once the "
    "gateway has confirmed the payment, and `credit.topup.succeeded` is sent. Give `package_id`, or `credits` where any "
    "number is sold.",
    for_agents="Use it to get a link by which a person pays for credits. It charges nothing and you cannot pay: give the "
    "person payment_url, and look at get_topup until its status is paid.",
    requests={"package": {"package_id": "credits-500"}},
    example=examples.TOPUP,
)
async def start_topup(use: UseCases, request: OperationRequest) -> Outcome:
    body: bodies.TopupBody = request.body

    def order() -> CreditOrder:
        if (body.package_id is None) == (body.credits is None):
            raise Unprocessable("Give either package_id or credits.")
        return use.start_payment.order(body.package_id, body.credits, request.now)

    return await use.start_payment(request.caller, order, request.required_key, request.now)


@Operation(
    method="GET",
    path="/credits/topups",
    scopes=(keys.Scope.CREDITS_READ,),
    listing=paging.Listing(),
    record=paging.TopupList,
    summary="List the payments for credits, the newest first",
    about="Top-ups by the operator are among `GET /credits/transactions` only.",
    for_agents="Use it to see which payments for credits are pending, paid, failed or expired.",
    example=examples.page_of(examples.TOPUP),
)
async def list_topups(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    page = request.page
    found = await use.queries.list_payments(request.account_id, page.limit + 1, page.before)
    return paging.render_list(found, page, lambda one: one.payment.id, payment_record)


@Operation(
    method="GET",
    path="/credits/topups/{id}",
    scopes=(keys.Scope.CREDITS_READ,),
    record=records.Topup,
    summary="Read a payment for credits",
    about="`paid` once the payment gateway has confirmed it; the credits are in the balance then. `refunded` also "
    "where a part was: `refund` has its credits and money.",
    for_agents="Use it to see whether a payment for credits has been made.",
    example=examples.TOPUP,
)
async def get_topup(use: UseCases, request: OperationRequest) -> answers.ApiResponse:
    payment_id = parse_id(request.path["id"], "payment")
    found = require_record(await use.queries.find_payment(request.account_id, payment_id), "payment")
    return answers.render_record(200, payment_record(found))
