"""Validators of fields, for callers without a type checker: where a wrong value would cost money."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attrs import Attribute


def flag(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    """Refuse what is neither true nor false."""
    if value is not True and value is not False:
        raise ValueError(f"{attribute.name} must be true or false")


def whole(_: object, attribute: "Attribute[Any]", value: Any) -> None:
    """Refuse what is no whole number, or outside of the `range` in the field's metadata.

    A range has the least and the most, `None` where there is no most.
    """
    least, most = attribute.metadata.get("range", (value, value))
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f" of at least {least}" if most is None else f" from {least} to {most}"
        bounds = bounds if "range" in attribute.metadata else ""
        raise ValueError(f"{attribute.name} must be a whole number{bounds}")
