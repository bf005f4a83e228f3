"""The program's entry point: the table of commands."""

import sys

from cyclopts import App

from meetcore.adapters.cli.accounts import account, credits_, host, key
from meetcore.adapters.cli.dev import dev
from meetcore.adapters.cli.output import ExitCode
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
for group in (account, key, credits_, host):
    program.command(group)


def main(arguments: list[str] | None = None) -> None:
    """Run one command.

    Raises:
        SystemExit: with a code of `output.ExitCode`.
    """
    try:
        program(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.DONE) from None


if __name__ == "__main__":
    main()
