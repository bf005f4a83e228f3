"""Validators of fields, for callers without a type checker: where a wrong value would cost money."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrs import Attribute


def flag(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    """Refuse what is neither true nor false."""
    if value is not True and value is not False:
        raise ValueError(f"{attribute.name} must be true or false")


def whole(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    """Refuse what is no whole number, or outside of the `range` in the field's metadata."""
    least, most = attribute.metadata.get("range", (value, value))
    if type(value) is not int or not least <= value <= most:
        bounds = f" from {least} to {most}" if "range" in attribute.metadata else ""
        raise ValueError(f"{attribute.name} must be a whole number{bounds}")
