"""The program's entry point: the table of commands.

A command's module is imported when the command runs: `meetcore --help` imports none of the service.
"""

import gc
import sys
from importlib.util import find_spec

from cyclopts import App, CycloptsError, MissingArgumentError

from meetcore.cli import FOR_CUSTOMERS
from meetcore.cli.output import ExitCode, complain

SERVICES = {"dev", "serve", "worker", "mcp", "events", "listen"}
OBJECTS_BETWEEN_COLLECTIONS = 50_000

# Name, where it is, help. The help stands here, too: read from the command, it would import the module.
COMMANDS = (
    ("dev", "dev:dev", "Run everything on this machine, with a demo account."),
    ("serve", "processes:serve", "Run the API."),
    ("worker", "processes:work", "Run workers: deliveries, notes, reconciliation."),
    (
        "migrate",
        "processes:migrate_schema",
        "Bring the schema up to date. Safe to run from many hosts at once; seeds nothing.",
    ),
    (
        "partitions",
        "maintenance:maintain_partitions",
        "Make the partitions of events and deliveries that are to come; drop those past their retention.\n\n"
        "Workers do it by themselves where their role owns the tables; else run this as the owner.",
    ),
    (
        "doctor",
        "maintenance:check_health",
        "Check database, servers and providers that the settings name. Ends with 1 if any check failed.",
    ),
    (
        "mcp",
        "agents:serve_agent",
        "Speak the Model Context Protocol over standard input and output, for a desktop client.\n\n"
        "The API key is taken from MEETCORE_API_KEY: on the command line, others could read it.",
    ),
    ("api", "customer:api", "Call an operation of the API and print its answer as JSON."),
    ("events", "customer:events", "The events of the account, as webhooks are sent them."),
    (
        "listen",
        "listen:listen",
        "Post the account's events to an address, signed as webhooks are, until Ctrl-C.\n\n"
        "The secret is printed, the same at each start with an API key. Each event is posted once.",
    ),
    (
        "trigger",
        "listen:trigger",
        "Make an event happen at a service on this machine.\n\n"
        "The steps to it happen in the sandbox and spend credits of the account: a meeting is made,\n"
        "started and ended, a payment is paid. A service elsewhere is refused.",
    ),
    ("account", "accounts:account", "Accounts: who pays."),
    ("key", "keys:key", "API keys: who may do what."),
    ("credits", "credits:credits_", "Credits: top up, and prove the ledger."),
    ("secrets", "maintenance:secrets", "The secrets key: move to another one, and remove the old one."),
    (
        "reconcile",
        "reconcile:reconcile",
        "List the meetings that only the provider or only the database has. Ends with 1 if a change was "
        "refused.",
    ),
    ("audit", "access:audit", "The audit log: who changed what."),
    ("portal", "access:portal", "One-time links to the dashboard."),
    ("sign-on", "access:sign_on", "Persons at the OpenID provider."),
    ("operator", "access:operator", "Operators: who may use the console."),
    ("host", "hosts:host", "Licensed hosts at the video provider."),
    ("webhook", "webhooks:webhook", "Webhook endpoints of all accounts."),
)

HELP = "Online meetings and meeting notes against prepaid credits."
HELP_OF_CUSTOMERS = f"{HELP}\n\nThe commands of the service need: pip install 'meetcore[server]'"


def make_program(*, is_whole: bool) -> App:
    """Return the program: with every command, or with those of customers alone."""
    made = App(
        name="meetcore",
        help=HELP if is_whole else HELP_OF_CUSTOMERS,
        help_format="plaintext",
        version_flags=["--version"],
        suppress_keyboard_interrupt=False,  # a service would end with 130
    )
    for name, place, text in COMMANDS:
        if is_whole or name in FOR_CUSTOMERS:
            group = "For customers, by an API key" if name in FOR_CUSTOMERS else "Commands"
            made.command(f"meetcore.cli.{place}", name=name, help=text, group=group)
    made.register_install_completion_command()
    return made


program = make_program(is_whole=True)


def main(arguments: list[str] | None = None) -> None:
    """Run one command, and exit with a code of `output.ExitCode`.

    Help and completion leave out commands whose packages are not installed; named, they say what they need.
    """
    tokens = sys.argv[1:] if arguments is None else arguments
    is_named = bool(tokens) and any(tokens[0] == name for name, *_ in COMMANDS)
    is_whole = is_named or find_spec("uvicorn") is not None
    as_json = "--json" in tokens
    if tokens and tokens[0] not in SERVICES:
        # Imported modules are no garbage: looking for it takes a third of a short command's time.
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        (program if is_whole else make_program(is_whole=False))(
            tokens, exit_on_error=False, print_error=False
        )
    except CycloptsError as error:
        complain("usage", f"{_describe(error)} --help lists the options.", as_json=as_json)
        raise SystemExit(ExitCode.USAGE) from None
    except KeyboardInterrupt:
        is_service = bool(tokens) and tokens[0] in SERVICES
        raise SystemExit(ExitCode.DONE if is_service else ExitCode.INTERRUPTED) from None
    except ImportError:
        raise
    except Exception as error:
        from meetcore.cli.runner import refuse  # which the command has imported

        refuse(error, as_json=as_json)
        raise
    finally:
        gc.freeze()  # the interpreter looks at every object again when it ends


def _describe(error: CycloptsError) -> str:
    """Return what is wrong with a command line in one line, with names as `--help` has them."""
    match error:
        case MissingArgumentError(argument=argument, keyword=None) if argument and not argument.tokens:
            name = argument.name if argument.index is None else argument.name.lstrip("-").upper()
            return f"{name} is missing."
    # The list of commands in it is cut off after some; --help has all.
    text = " ".join(str(error).split()).partition(" Available commands:")[0].rstrip(".")
    return text if text.endswith("?") else f"{text}."


if __name__ == "__main__":
    main()
