"""`meetcore secrets`: move to another key, and remove the old one."""

from typing import Annotated

from cyclopts import App, Parameter

from meetcore.adapters.settings import Settings, load_settings
from meetcore.cli.inputs import Json
from meetcore.cli.operator_log import log_action
from meetcore.cli.output import ExitCode, print_message, show
from meetcore.cli.progress import progress
from meetcore.cli.runner import guarded, with_settings
from meetcore.composition.application import Application
from meetcore.composition.secret_keys import kept_of_removed, open_sealed_values
from meetcore.usecases.reseal_secrets import Resealing, ResealSecrets

secrets = App(name="secrets", help="The secrets key: move to another one, and remove the old one.")


@secrets.command
def reseal(*, dry_run: Annotated[bool, Parameter(negative="")] = False, json: Json = False) -> None:
    """Encrypt under the first key what is under others, while the service runs. Ends with 1 if any is left.

    Parameters
    ----------
    dry_run:
        Only count what is under each key.
    """

    async def work(settings: Settings, application: Application) -> Resealing:
        async with open_sealed_values(settings) as values:
            use_case = ResealSecrets(values, application.ports.store, application.runtime)
            origin = application.account_data.erase.origin
            with progress("values encrypted") as report:
                done = await use_case.acting_as(origin)(dry_run=dry_run, on_progress=report)
        if done.resealed:
            log_action("secrets reseal", {"amount": done.resealed})
        return done

    done = with_settings(work, as_json=json)
    named = {id_: done.left.get(id_, 0) for id_ in (*done.keys, *done.left)}
    show(
        {
            "resealed": done.resealed,
            "changed_meanwhile": done.changed,
            "unreadable": done.unreadable,
            "is_done": done.is_done,
            "first_key": done.keys[0],
            "values": named if json else "; ".join(f"{id_}: {count}" for id_, count in named.items()),
        },
        as_json=json,
    )
    if unknown := sorted(set(done.left) - set(done.keys)):
        print_message(
            f"Values are under keys that are not in MEETCORE_SECRETS_KEY: put back {', '.join(unknown)}.",
            as_json=True,
        )
    if not done.is_done:
        raise SystemExit(ExitCode.REFUSED)


@secrets.command
def derive(*, json: Json = False) -> None:
    """Print what has to be kept of the keys behind the first before they are removed. These are secrets."""
    kept = guarded(lambda: kept_of_removed(load_settings()), as_json=json)
    show(dict(kept), as_json=json)
    if not kept:
        print_message("There is one key, and nothing to keep of another.", as_json=True)
