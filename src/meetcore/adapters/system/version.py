"""The version of the program that runs."""

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """Return the installed version of meetcore; `0` in a checkout that is not installed."""
    try:
        return metadata.version("meetcore")
    except metadata.PackageNotFoundError:
        return "0"
