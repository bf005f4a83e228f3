"""Names that an operator may misspell: variables, keys of files. A refusal names the nearest known one."""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

PREFIX = "MEETCORE_"
OTHERS = frozenset({"CONFIG_FILE", "API_KEY"})
"""Variables of ours that are no settings: where the file of settings is, and a customer's key."""
MISSPELT = 0.8
"""From this likeness on (`difflib`, 0 to 1) an unknown variable counts as a misspelt setting."""
LIKE = 0.6

# Kubernetes sets these for every service of a namespace, after its name: MEETCORE_PORT_8000_TCP.
_KUBERNETES = re.compile(r"(.+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")


def hint(name: str, known: Mapping[str, str]) -> str:
    """Ask whether the nearest known name is meant; empty if none is near.

    Args:
        name: as it was written.
        known: how each known name is shown.
    """
    near = get_close_matches(name, list(known), n=1, cutoff=LIKE)
    return f"; did you mean {known[near[0]]}?" if near else ""


def check_file(file: Path, known: Sequence[str]) -> None:
    """Check that a file of settings contains no name that would be ignored.

    Raises:
        ValueError: it is not TOML, has a setting outside the table `[meetcore]` or no such table, or an
            unknown name in it.
    """
    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        raise ValueError("the file cannot be read as TOML") from None
    for name in known:
        if name in document:
            raise ValueError(f"{name} stands outside the table [meetcore]; put it in")
    table = document.get("meetcore")
    if document and not isinstance(table, dict):
        raise ValueError("the file has no table [meetcore], in which settings stand")
    for name in table or ():
        if name.replace("-", "_") not in known:
            raise ValueError(f"{name!r} is not a setting{hint(name, dict(zip(known, known, strict=True)))}")


def unknown_variables(environment: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """List the variables with our prefix that are no setting.

    Left out are those of tests (`MEETCORE_TEST_…`) and those that Kubernetes makes of the names of services.

    Args:
        environment: variables by name.
        known: names of settings, in lower case and without the prefix.
    """
    names = {name.upper() for name in known} | OTHERS
    suffixes = (name.removeprefix(PREFIX) for name in sorted(environment) if name.startswith(PREFIX))
    strange = (name for name in suffixes if name not in names and not name.startswith("TEST_"))
    return [PREFIX + name for name in strange if not _KUBERNETES.fullmatch(name)]


def misspelt_variables(environment: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """Describe the unknown variables that are so near to a setting that they must be meant for it."""
    names = {name.upper() for name in known}
    found = []
    for variable in unknown_variables(environment, names):
        near = get_close_matches(variable.removeprefix(PREFIX), names, n=1, cutoff=MISSPELT)
        if near and PREFIX + near[0] not in environment:
            found.append(f"{variable} is not a setting; did you mean {PREFIX}{near[0]}?")
    return found
