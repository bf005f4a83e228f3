"""The command line. The script `meetcore` starts here, or reports in one line which package is missing.

The library alone brings attrs and nothing else, and this script with it.
"""

import re
import sys
from importlib import metadata
from typing import Final

_EXTRAS_OF: Final = {"dev": ["all"], "mcp": ["server,mcp"]}
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
        needed = _EXTRAS_OF.get(next(iter(sys.argv[1:]), "")) or _extras_with(package)
        extras = " or ".join(f"'meetcore[{each}]'" for each in needed)
        sys.stderr.write(f"meetcore: {package} is not installed; this needs: pip install {extras}\n")
        raise SystemExit(2) from None


def _missing_package(error: ImportError) -> str | None:
    """Name the package that is not installed; `None` where the fault is one of meetcore's own modules."""
    # A command's module is imported by cyclopts, which wraps the error.
    cause = error if isinstance(error, ModuleNotFoundError) else error.__cause__
    if not isinstance(cause, ModuleNotFoundError) or cause.name is None:
        return None
    return None if cause.name.partition(".")[0] == "meetcore" else cause.name


def _extras_with(package: str) -> list[str]:
    """Return the extras that bring a package: those of customers and of the service before all others."""
    name = re.escape(package.replace("_", "-"))
    needed = "\n".join(metadata.requires("meetcore") or ())
    found = set(re.findall(rf"(?mi)^{name}\b.*extra == ['\"](\w+)", needed)) - {"all"}
    return sorted(found & {"client", "server"} or found or {"all"})
