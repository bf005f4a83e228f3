"""The file of prices: tiers, notes, packages of credits and who sells them, checked to the last name.

::

    [[tier]]         what a meeting costs; the default tiers without any
    [notulen]        what a minute of notes costs
    [[package]]      credits on sale, at a price without tax
    [free_amount]    where any number of credits is sold, within bounds
    [seller]         name, address and tax number for receipts, and the tax in percent

A name that is not known is refused: prices that are misspelt must not be replaced by the default ones.
"""

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import attrs

from meetcore.adapters.settings.names import hint
from meetcore.domain.money.pricing import DEFAULT_TIERS, PricingTier, TierCatalogue
from meetcore.domain.payments.packages import CreditPackage, FreeAmount, PackageCatalogue, Seller

_LISTS = {"tier": "[[tier]]", "package": "[[package]]"}
_TABLES = {"notulen": "[notulen]", "free_amount": "[free_amount]", "seller": "[seller]"}
_NOTULEN_KEYS = {name: name for name in ("credits_per_minute", "credits_per_minute_by_rules")}
_TAX = "tax_percent"

_R = TypeVar("_R")


def read_tiers(path: str) -> TierCatalogue:
    """Read the tiers on sale; the default ones where no file is named.

    Raises `ValueError` with the fault, and neither the path nor more of the file than the name in question.
    """
    document = _read(path)
    notulen = _table(document, "notulen", _NOTULEN_KEYS)
    tiers = _records(document, "tier", PricingTier)
    per_minute = notulen.get("credits_per_minute", DEFAULT_TIERS.notulen_credits_per_minute)
    by_rules = notulen.get("credits_per_minute_by_rules", per_minute)
    return TierCatalogue.of(tiers or DEFAULT_TIERS.tiers.values(), per_minute, by_rules)


def read_packages(path: str) -> PackageCatalogue:
    """Read the packages of credits on sale, and the seller; nothing is sold where no file is named.

    Raises `ValueError` as `read_tiers` does.
    """
    document = _read(path)
    seller = _table(document, "seller", _keys(Seller) | {_TAX: _TAX})
    tax = _basis_points(seller.pop(_TAX, 0))
    free = _table(document, "free_amount", _keys(FreeAmount))
    return PackageCatalogue.of(
        _records(document, "package", CreditPackage),
        _record("[free_amount]", free, FreeAmount) if free else None,
        tax,
        _record("[seller]", seller, Seller),
    )


def _read(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    try:
        document = tomllib.loads(Path(path).read_text("utf-8"), parse_float=Decimal)
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    except ValueError:  # of TOML, or of UTF-8
        raise ValueError("it is not TOML") from None
    for name in document:
        if name not in _LISTS | _TABLES:
            raise ValueError(f"it has {name!r}, which is not known{hint(name, _LISTS | _TABLES)}")
    lists = [document.get(name, []) for name in _LISTS]
    are_lists = all(isinstance(each, list) for each in lists)
    tables = [*(table for each in lists for table in each)] if are_lists else [None]
    tables += [document.get(name, {}) for name in _TABLES]
    if not all(isinstance(table, dict) for table in tables):
        raise ValueError(
            "write each tier as a table [[tier]], each package as [[package]], and the price of notes as a "
            "table [notulen], likewise [free_amount] and [seller]"
        )
    return document


def _table(document: Mapping[str, Any], name: str, known: Mapping[str, str]) -> dict[str, Any]:
    table = dict(document.get(name, {}))
    _check_keys(_TABLES[name], table, known)
    return table


def _records(document: Mapping[str, Any], name: str, kind: type[_R]) -> list[_R]:
    return [
        _record(f"{_LISTS[name]} {number}", table, kind)
        for number, table in enumerate(document.get(name, []), start=1)
    ]


def _record(place: str, table: Mapping[str, Any], kind: type[_R]) -> _R:
    fields = attrs.fields(kind)  # type: ignore[arg-type]
    _check_keys(place, table, _keys(kind))
    required = [each.name for each in fields if each.default is attrs.NOTHING]
    if lacking := [name for name in required if name not in table]:
        raise ValueError(f"{place} lacks {', '.join(lacking)}")
    try:
        return kind(**table)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place}: {error}") from None


def _keys(kind: type) -> dict[str, str]:
    return {each.name: each.name for each in attrs.fields(kind)}


def _basis_points(percent: object) -> int:
    if isinstance(percent, int | Decimal) and not isinstance(percent, bool):
        points = Decimal(percent) * 100
        if points == points.to_integral_value() and 0 <= points <= 10_000:
            return int(points)
    raise ValueError(f"[seller]: {_TAX} must be a number from 0 to 100 with at most two decimals")


def _check_keys(place: str, table: Mapping[str, Any], known: Mapping[str, str]) -> None:
    for name in table:
        if name not in known:
            raise ValueError(f"{place} has {name!r}, which is not known{hint(name, known)}")
