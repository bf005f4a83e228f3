"""Names that an operator may misspell: variables, keys of files. A refusal names the nearest known one."""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
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
    """Return a question for the nearest known name, if any. `known` maps names to their shown form."""
    near = get_close_matches(name, list(known), n=1, cutoff=LIKE)
    return f"; did you mean {known[near[0]]}?" if near else ""


def read_file(file: Path, known: Collection[str]) -> dict[str, object]:
    """Read a file of settings; raise `ValueError` for no TOML, or a `known` name that is out of place."""
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
    return {name.replace("-", "_"): value for name, value in (table or {}).items()}


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """Raise `ValueError` for a name that is no `known` setting."""
    for name in given:
        if name not in known:
            raise ValueError(f"{name!r} is not a setting{hint(name, {each: each for each in known})}")


def unknown_variables(environment: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """List the variables with our prefix that are not `known` settings, nor of tests or of Kubernetes."""
    names = {name.upper() for name in known} | OTHERS
    suffixes = (name.removeprefix(PREFIX) for name in sorted(environment) if name.startswith(PREFIX))
    strange = (name for name in suffixes if name not in names and not name.startswith("TEST_"))
    return [PREFIX + name for name in strange if not _KUBERNETES.fullmatch(name)]


def misspelt_variables(environment: Mapping[str, str], known: Iterable[str]) -> list[str]:
    """Describe the unknown variables that are near enough to a setting to be a slip."""
    names = {name.upper() for name in known}
    found = []
    for variable in unknown_variables(environment, names):
        near = get_close_matches(variable.removeprefix(PREFIX), names, n=1, cutoff=MISSPELT)
        if near and PREFIX + near[0] not in environment:
            found.append(f"{variable} is not a setting; did you mean {PREFIX}{near[0]}?")
    return found
