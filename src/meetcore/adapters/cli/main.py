"""The program's entry point: the table of commands."""

import sys

from cyclopts import App, CycloptsError

from meetcore.adapters.cli.accounts import account, credits_, host, key
from meetcore.adapters.cli.agents import serve_agent
from meetcore.adapters.cli.dev import dev
from meetcore.adapters.cli.output import ExitCode, complain
from meetcore.adapters.cli.processes import migrate_schema, serve, work

__all__ = ["main"]

program = App(
    name="meetcore",
    help="Online meetings and meeting notes against prepaid credits.",
    help_format="plaintext",
    version_flags=["--version"],
)
program.command(dev, name="dev")
program.command(serve, name="serve")
program.command(work, name="worker")
program.command(migrate_schema, name="migrate")
program.command(serve_agent, name="mcp")
for group in (account, key, credits_, host):
    program.command(group)


def main(arguments: list[str] | None = None) -> None:
    """Run one command.

    Raises:
        SystemExit: with a code of `output.ExitCode`.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        program(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        told = " ".join(str(error).split()).rstrip(".")
        complain("usage", f"{told}. --help tells what there is.", as_json="--json" in words)
        raise SystemExit(ExitCode.USAGE) from None
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.DONE) from None


if __name__ == "__main__":
    main()
