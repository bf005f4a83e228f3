"""The script `meetcore`: starts the program, or says in a line what is missing to run it.

The library alone brings attrs and nothing else, and this script with it.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the program.

    Raises:
        SystemExit: with 2 when the packages of the service are not installed; else see `main.main`.
    """
    try:
        from meetcore.adapters.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("meetcore"):
            raise
        sys.stderr.write(
            f"meetcore: {error.name} is not installed; the program needs: pip install 'meetcore[all]'\n"
        )
        raise SystemExit(2) from None
    run()
