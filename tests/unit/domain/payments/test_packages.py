"""What credits cost, and what can be ordered."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.errors import NotFound, Unprocessable
from meetcore.domain.payments.packages import (
    MAX_MONEY,
    CreditOrder,
    CreditPackage,
    FreeAmount,
    PackageCatalogue,
    Seller,
)

AT = datetime(2026, 12, 1, tzinfo=UTC)
STARTER = CreditPackage("starter", 500, 500_000, "IDR")
FREE = FreeAmount(100, 10_000, 1_000, "IDR")


def catalogue(**changes: Any) -> PackageCatalogue:
    return evolve(PackageCatalogue.of([STARTER], FREE, 1_100, Seller("PT Rapat")), **changes)


def test_a_package_is_ordered_with_its_tax() -> None:
    order = catalogue().order_package("starter", AT)
    assert order == CreditOrder(500, 500_000, 55_000, "IDR", "starter")
    assert order.amount == 555_000


def test_a_number_of_credits_is_ordered_within_bounds() -> None:
    assert catalogue().order_credits(100) == CreditOrder(100, 100_000, 11_000, "IDR", None)
    assert catalogue().order_credits(10_000).credits == 10_000


@pytest.mark.parametrize("credits", [99, 10_001, 0, -1])
def test_other_numbers_of_credits_are_refused(credits: int) -> None:
    with pytest.raises(Unprocessable, match=r"^From 100 to 10000 credits are sold at once\.$"):
        catalogue().order_credits(credits)


def test_a_number_of_credits_is_not_sold_unless_the_catalogue_says_so() -> None:
    message = r"^Packages of credits are sold only: give the package_id of GET /credit-packages\.$"
    with pytest.raises(Unprocessable, match=message):
        catalogue(free=None).order_credits(100)


@given(st.integers(1, MAX_MONEY), st.integers(0, 10_000))
def test_tax_is_rounded_half_up_to_the_unit(price: int, points: int) -> None:
    order = PackageCatalogue.of([evolve(STARTER, price=price)], None, points).order_package("starter", AT)
    assert type(order.tax) is int
    assert abs(order.tax * 10_000 - price * points) * 2 <= 10_000
    if (price * points) % 10_000 == 5_000:
        assert order.tax * 10_000 > price * points


def test_a_package_is_sold_to_the_end_of_its_last_day_in_wib() -> None:
    limited = catalogue(packages={"starter": evolve(STARTER, valid_until=date(2026, 12, 1))})
    last, over = datetime(2026, 12, 1, 16, 59, tzinfo=UTC), datetime(2026, 12, 1, 17, tzinfo=UTC)
    assert [each.id for each in limited.on_sale(last)] == ["starter"]
    assert limited.order_package("starter", last).credits == 500
    assert limited.on_sale(over) == ()
    for package_id, at in (("starter", over), ("other", last)):
        message = r"^No package with this id\. GET /credit-packages lists those on sale\.$"
        with pytest.raises(NotFound, match=message) as refusal:
            limited.order_package(package_id, at)
        assert refusal.value.details == {"package_id": package_id}


def test_an_id_names_one_package() -> None:
    with pytest.raises(ValueError, match="the package id 'starter' is given twice"):
        PackageCatalogue.of([STARTER, STARTER])


def test_an_empty_catalogue_sells_nothing() -> None:
    assert PackageCatalogue().on_sale(AT) == ()
    assert PackageCatalogue.of([]) == PackageCatalogue()
    assert catalogue().seller == Seller("PT Rapat")


@pytest.mark.parametrize(("changes", "message"), [
    ({"currency": "Rp"}, "currency must be three capital letters, such as IDR"),
    ({"currency": 7}, "currency must be three capital letters"),
    ({"price": 0}, "price must be a whole number from 1"),
    ({"price": MAX_MONEY + 1}, "price must be a whole number from 1"),
    ({"credits": 0}, "credits must be a whole number from 1"),
    ({"id": ""}, "id must be a text of 1 to 100 characters"),
    ({"id": "x" * 101}, "id must be a text of 1 to 100 characters"),
    ({"id": "a\n"}, "id must be a text of 1 to 100 characters"),
    ({"id": 7}, "id must be a text of 1 to 100 characters"),
    ({"valid_until": AT}, "valid_until must be a day, such as 2026-12-31"),
])  # fmt: skip
def test_an_impossible_package_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evolve(STARTER, **changes)
    assert evolve(STARTER, id="x" * 100, price=MAX_MONEY).price == MAX_MONEY


@pytest.mark.parametrize(("changes", "message"), [
    ({"credits_from": 10_001}, "^credits_from must not be above credits_to$"),
    ({"price_per_credit": MAX_MONEY // 10_000 + 1}, f"credits_to must not come to more than {MAX_MONEY}"),
    ({"currency": "idr"}, "currency must be three capital letters"),
])  # fmt: skip
def test_an_impossible_free_amount_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evolve(FREE, **changes)
    assert evolve(FREE, credits_from=10_000, price_per_credit=MAX_MONEY // 10_000).credits_from == 10_000


@pytest.mark.parametrize("points", [-1, 10_001, 0.5])
def test_an_impossible_tax_is_refused(points: Any) -> None:
    with pytest.raises(ValueError, match="tax_basis_points must be a whole number from 0 to 10000"):
        PackageCatalogue(tax_basis_points=points)


@pytest.mark.parametrize("text", [7, None, "PT\0", "Jl. Melati 1\r\nBandung"])
def test_a_seller_is_named_by_texts(text: Any) -> None:
    for name in ("name", "address", "tax_number"):
        with pytest.raises(
            ValueError, match=f"^{name} must be a text in quotes, without control characters$"
        ):
            Seller(**{name: text})
    assert Seller(address="Jl. Melati 1\nBandung").address.endswith("Bandung")
