"""The record of an account and of the key that asks (spec 4.2)."""

from typing import Annotated

from attrs import frozen

from meetcore.domain.field_info import FieldInfo
from meetcore.domain.records.fields import Credits, Id
from meetcore.domain.requests.keys import Scope

__all__ = ["Account", "Balance", "Key", "User"]


@frozen
class User:
    """Whose account it is."""

    id: Id
    email: str
    full_name: str


@frozen
class Balance:
    """The account's balance."""

    balance: Credits


@frozen
class Key:
    """The key that asks."""

    id: Id
    scopes: tuple[Annotated[str, FieldInfo(known_values=Scope)], ...]
    daily_credit_cap: Annotated[
        int | None, FieldInfo("Whole credits a day from 00:00 WIB; null when the key has no cap.")
    ] = None


@frozen
class Account:
    """Whose key it is, what is left, and what the key may do (rule 2.2/fields)."""

    user: User
    credits: Balance
    api_key: Key | None = None
