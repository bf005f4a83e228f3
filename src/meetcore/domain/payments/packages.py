"""The packages of credits on sale, and what an order of credits comes to.

Money is in whole rupiah, and in any other currency in its minor unit (ISO 4217), such as cents. Prices are
without tax; the tax is added, rounded half up to the unit.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, Final

from attrs import Attribute, Factory, field, frozen

from meetcore.domain.checks import whole
from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.money.transfers import MAX_CREDITS

MAX_MONEY: Final = 10**13
"""The largest price, in units of its currency."""
WHOLE: Final = 10_000
"""Basis points of the whole."""

_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)


def _currency(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise ValueError(f"{attribute.name} must be three capital letters, such as IDR")


def _text(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    if not isinstance(value, str) or not value or len(value) > 100 or not value.isprintable():
        raise ValueError(f"{attribute.name} must be a text of 1 to 100 characters")


def _lines(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    if not isinstance(value, str) or not all(line.isprintable() for line in value.split("\n")):
        raise ValueError(f"{attribute.name} must be a text in quotes, without control characters")


@frozen
class CreditPackage:
    """Credits at a price without tax; `valid_until` is the last day (WIB) on which it is sold.

    Its `name` is the id unless it is given.
    """

    id: str = field(validator=_text)
    credits: int = field(validator=whole, metadata={"range": (1, MAX_CREDITS)})
    price: int = field(validator=whole, metadata={"range": (1, MAX_MONEY)})
    currency: str = field(validator=_currency)
    valid_until: date | None = field(default=None)
    name: str = field(default=Factory(lambda self: self.id, takes_self=True), validator=_text)

    @valid_until.validator
    def _check_valid_until(self, _: object, value: object) -> None:
        if value is not None and type(value) is not date:
            raise ValueError("valid_until must be a day, such as 2026-12-31")


@frozen
class FreeAmount:
    """Any number of credits within bounds, at a price without tax for each."""

    credits_from: int = field(validator=whole, metadata={"range": (1, MAX_CREDITS)})
    credits_to: int = field(validator=whole, metadata={"range": (1, MAX_CREDITS)})
    price_per_credit: int = field(validator=whole, metadata={"range": (1, MAX_MONEY)})
    currency: str = field(validator=_currency)

    def __attrs_post_init__(self) -> None:
        if self.credits_from > self.credits_to:
            raise ValueError("credits_from must not be above credits_to")
        if self.credits_to * self.price_per_credit > MAX_MONEY:
            raise ValueError(f"credits_to must not come to more than {MAX_MONEY} units of the currency")


@frozen
class Seller:
    """Who sells the credits, as receipts name it; an empty text is not printed."""

    name: str = field(default="", validator=_lines)
    address: str = field(default="", validator=_lines)
    tax_number: str = field(default="", validator=_lines)


@frozen
class CreditOrder:
    """Credits and what they cost: `price` without tax, and `tax`, in units of the currency."""

    credits: int
    price: int
    tax: int
    currency: str
    package_id: str | None = None

    @property
    def amount(self) -> int:
        """What is to be paid."""
        return self.price + self.tax


@frozen
class PackageCatalogue:
    """What is sold, by whom, and the tax on it in hundredths of a percent."""

    packages: Mapping[str, CreditPackage] = field(factory=lambda: MappingProxyType({}))
    free: FreeAmount | None = None
    tax_basis_points: int = field(default=0, validator=whole, metadata={"range": (0, WHOLE)})
    seller: Seller = Seller()

    @classmethod
    def of(
        cls,
        packages: Iterable[CreditPackage],
        free: FreeAmount | None = None,
        tax_basis_points: int = 0,
        seller: Seller = Seller(),
    ) -> "PackageCatalogue":
        """Build a catalogue; raise `ValueError` where two packages share an id."""
        by_id: dict[str, CreditPackage] = {}
        for package in packages:
            if package.id in by_id:
                raise ValueError(f"the package id {package.id!r} is given twice")
            by_id[package.id] = package
        return cls(MappingProxyType(by_id), free, tax_basis_points, seller)

    def on_sale(self, now: datetime) -> tuple[CreditPackage, ...]:
        """Return the packages that are sold at an instant, in the catalogue's order."""
        return tuple(package for package in self.packages.values() if _is_sold(package, now))

    def order_package(self, package_id: str, now: datetime) -> CreditOrder:
        """Price a package; raise `NotFound` where it is unknown, or sold no more."""
        package = self.packages.get(package_id)
        if package is None or not _is_sold(package, now):
            raise NotFound(
                "No package with this id. GET /credit-packages lists those on sale.",
                {"package_id": package_id},
            )
        return self._order(package.credits, package.price, package.currency, package.id)

    def order_credits(self, credits: int) -> CreditOrder:
        """Price a number of credits; raise `Unprocessable` where it is not sold."""
        free = self.free
        if free is None:
            raise Unprocessable(
                "Packages of credits are sold only: give the package_id of GET /credit-packages."
            )
        if not free.credits_from <= credits <= free.credits_to:
            raise Unprocessable(f"From {free.credits_from} to {free.credits_to} credits are sold at once.")
        return self._order(credits, credits * free.price_per_credit, free.currency)

    def _order(self, credits: int, price: int, currency: str, package_id: str | None = None) -> CreditOrder:
        tax = (price * self.tax_basis_points + WHOLE // 2) // WHOLE
        return CreditOrder(credits, price, tax, currency, package_id)


def _is_sold(package: CreditPackage, now: datetime) -> bool:
    return package.valid_until is None or now.astimezone(WIB).date() <= package.valid_until


EXAMPLE_PACKAGES: Final = PackageCatalogue.of(
    (
        CreditPackage("credits-100", 100, 100_000, "IDR"),
        CreditPackage("credits-500", 500, 475_000, "IDR"),
        CreditPackage("credits-2000", 2_000, 1_800_000, "IDR"),
    ),
    seller=Seller("Example seller", "Jl. Contoh 1, Jakarta", "00.000.000.0-000.000"),
)
"""Packages for a service that shows how buying works, without money."""
