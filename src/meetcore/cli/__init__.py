"""The command line. The script `meetcore` starts here, or reports in one line which package is missing.

The library alone brings attrs and nothing else, and this script with it.
"""

import re
import sys
from importlib import metadata
from typing import Final

FOR_CUSTOMERS: Final = {"api", "events", "listen", "trigger"}
"""They speak to a service by an API key, and need the extra `client` alone."""

_EXTRAS_OF: Final = {"dev": "all", "mcp": "server,mcp"}
"""Of commands that need more than the extra that brings the package which is missed first."""


def start() -> None:
    """Run the program; exit with 2 when the packages of the service are not installed."""
    try:
        from meetcore.cli.main import main as run

        run()
    except ImportError as error:
        package = _missing_package(error)
        if package is None:
            raise
        command = next(iter(sys.argv[1:]), "")
        extra = _EXTRAS_OF.get(command) or _extra_with(package, command)
        sys.stderr.write(
            f"meetcore: {package} is not installed; this needs: pip install 'meetcore[{extra}]'\n"
        )
        raise SystemExit(2) from None


def _missing_package(error: ImportError) -> str | None:
    """Name the package that is not installed; `None` where the fault is one of meetcore's own modules."""
    # A command's module is imported by cyclopts, which wraps the error.
    cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__
    if not isinstance(cause, ModuleNotFoundError) or cause.name is None:
        return None
    return None if cause.name.partition(".")[0] == "meetcore" else cause.name


def _extra_with(package: str, command: str) -> str:
    """Return the extra that brings a package: where it does, that of the command, or of the help."""
    name = re.escape(package.replace("_", "-"))
    needed = "\n".join(metadata.requires("meetcore") or ())
    found = set(re.findall(rf"(?mi)^{name}\b.*extra == ['\"](\w+)", needed)) - {"all"}
    usual = "server" if command[:1].isalpha() and command not in FOR_CUSTOMERS else "client"
    return usual if usual in found else min(found, default="all")
