"""Receipts of payments: numbered within each year (WIB) without gaps, with seller and buyer as they were.

The number is taken in the transaction that marks the payment paid.
"""

import re
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import InvalidRequest
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.payments.packages import Seller


@frozen
class Buyer:
    """Who bought: name, address and tax number, as the account gave them."""

    name: str
    address: str = ""
    tax_number: str = ""


_PRINTED: Final = re.compile(r"([0-9]{4})-([0-9]{6,9})", re.ASCII)
MAX_BUYER: Final = {"name": 200, "address": 500, "tax_number": 50}
"""Characters of the fields of a buyer."""


def check_buyer(buyer: Buyer) -> Buyer:
    """Return a buyer; raise `InvalidRequest` that names every field that is too long, or a blank name."""
    problems = {
        name: [f"must have at most {most} characters"]
        for name, most in MAX_BUYER.items()
        if len(getattr(buyer, name)) > most
    }
    for name, most in MAX_BUYER.items():
        if not all(line.isprintable() for line in getattr(buyer, name).split("\n")):
            problems[name] = [f"must be at most {most} characters without control characters"]
    if not buyer.name.strip():
        problems["name"] = ["must not be empty"]
    if problems:
        raise InvalidRequest(problems)
    return buyer


@frozen(kw_only=True)
class Receipt:
    """The receipt of a payment."""

    payment_id: UUID
    account_id: UUID
    year: int
    number: int
    issued_at: datetime
    seller: Seller
    buyer: Buyer

    @property
    def text(self) -> str:
        """Its number as it is printed, such as `2026-000042`."""
        return f"{self.year}-{self.number:06d}"


def read_receipt_number(text: str) -> tuple[int, int] | None:
    """Read the year and the number of a receipt as it is printed; `None` for another text."""
    found = _PRINTED.fullmatch(text)
    return None if found is None else (int(found[1]), int(found[2]))


def receipt_year(at: datetime) -> int:
    """Return the year of a receipt that is issued at an instant."""
    return at.astimezone(WIB).year
