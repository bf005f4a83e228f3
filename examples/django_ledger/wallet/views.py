"""The wallet over plain JSON.

Owns the mapping of refusals to statuses. Authorization is left to the project.
"""

import json
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from meetcore.domain.errors import Conflict, DomainError, NotFound

from . import services

__all__ = ["purchases"]


@csrf_exempt  # programs call it, and no browser carries a cookie here
@require_POST
def purchases(request: HttpRequest, account_id: UUID) -> JsonResponse:
    """Pay for an order: `{"order": "o-1", "price": 10}`. Sent again, it is answered again and paid once."""
    try:
        order, price = read_order(request.body)
        balance = services.buy(account_id, order, price, timezone.now())
    except DomainError as refusal:
        error = {"code": refusal.code, "message": refusal.message, "details": dict(refusal.details)}
        return JsonResponse({"error": error}, status=status_of(refusal))
    except ValueError as problem:  # an invalid amount among them
        return JsonResponse({"error": {"code": "invalid_request", "message": str(problem)}}, status=400)
    return JsonResponse({"balance": balance})


def read_order(body: bytes) -> tuple[str, int]:
    """Read a purchase; whether the price is an amount is checked by the ledger.

    Raises:
        ValueError: not JSON, or not these two fields.
    """
    document = json.loads(body)
    if not isinstance(document, dict) or document.keys() != {"order", "price"}:
        raise ValueError("send an object with order and price")
    order: object = document["order"]
    if not isinstance(order, str) or not 1 <= len(order) <= 200 or not order.isprintable():
        raise ValueError("order is a text of 1 to 200 characters")
    return order, document["price"]


def status_of(refusal: DomainError) -> int:
    """The status of a refusal, by its class."""
    if isinstance(refusal, NotFound):
        return 404
    return 409 if isinstance(refusal, Conflict) else 422
