"""The file of pricing tiers: `[[tier]]` tables and `[notulen]`, checked to the last name.

A name that is not known is refused: prices that are misspelt must not be replaced by the default ones.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from meetcore.adapters.settings.names import hint
from meetcore.domain.money.pricing import DEFAULT_TIERS, PricingTier, TierCatalogue

_TABLES = {"tier": "[[tier]]", "notulen": "[notulen]"}
_TIER_KEYS = {attribute.name: attribute.name for attribute in attrs.fields(PricingTier)}
_REQUIRED = [attribute.name for attribute in attrs.fields(PricingTier) if attribute.default is attrs.NOTHING]
_NOTULEN_KEYS = {name: name for name in ("credits_per_minute", "credits_per_minute_by_rules")}


def read_tiers(path: str) -> TierCatalogue:
    """Read the tiers on sale; the default ones where no file is named.

    Raises `ValueError` with the fault, and neither the path nor more of the file than the name in question.
    """
    if not path:
        return DEFAULT_TIERS
    try:
        document = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    except ValueError:  # of TOML, or of UTF-8
        raise ValueError("it is not TOML") from None
    return _catalogue(document)


def _catalogue(document: Mapping[str, Any]) -> TierCatalogue:
    for name in document:
        if name not in _TABLES:
            raise ValueError(f"it has {name!r}, which is not known{hint(name, _TABLES)}")
    tables, notulen = document.get("tier", []), document.get("notulen", {})
    are_tables = isinstance(tables, list) and all(isinstance(table, dict) for table in (*tables, notulen))
    if not are_tables:
        raise ValueError("write each tier as a table [[tier]], and the price of notes as a table [notulen]")
    _check_keys("[notulen]", notulen, _NOTULEN_KEYS)
    tiers = [_tier(number, table) for number, table in enumerate(tables, start=1)]
    per_minute = notulen.get("credits_per_minute", DEFAULT_TIERS.notulen_credits_per_minute)
    by_rules = notulen.get("credits_per_minute_by_rules", per_minute)
    return TierCatalogue.of(tiers or DEFAULT_TIERS.tiers.values(), per_minute, by_rules)


def _tier(number: int, table: Mapping[str, Any]) -> PricingTier:
    place = f"[[tier]] {number}"
    _check_keys(place, table, _TIER_KEYS)
    if lacking := [name for name in _REQUIRED if name not in table]:
        raise ValueError(f"{place} lacks {', '.join(lacking)}")
    try:
        return PricingTier(**table)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _check_keys(place: str, table: Mapping[str, Any], known: Mapping[str, str]) -> None:
    for name in table:
        if name not in known:
            raise ValueError(f"{place} has {name!r}, which is not known{hint(name, known)}")
