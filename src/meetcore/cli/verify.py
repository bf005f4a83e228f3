"""`meetcore credits verify`: prove the ledger."""

from collections.abc import Sequence

from meetcore.adapters.settings import Settings
from meetcore.adapters.system import cores
from meetcore.cli.inputs import Json, Whole, check_counts
from meetcore.cli.output import ExitCode, complain, print_message, show
from meetcore.cli.progress import progress
from meetcore.cli.runner import guarded, with_settings
from meetcore.composition.application import Application
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.usecases.verify_ledger import Audit, VerifierLost, Verifiers

MAX_PROCESSES = 64


def _verifiers(settings: Settings, processes: int, keys: Sequence[ChainKey]) -> Verifiers:
    """Processes that join the snapshot at the database itself: a pooler may refuse their sessions."""
    from meetcore.composition.verification import verifiers_of  # other commands start no processes

    url = str(settings.database_direct_url)
    if not url:
        processes = 1 if settings.is_pooled else processes
        url = settings.require_database()
    return verifiers_of(url, processes, keys)


def verify_credits(*, processes: Whole | None = None, json: Json = False) -> None:
    """Prove the ledger: chains, balances, holds, legs, refunds, caps. Ends with 1 if anything is wrong.

    Parameters
    ----------
    processes:
        How many processes at most; as many as there are cores when not given. Each has a connection.
    """
    number = min(cores(), MAX_PROCESSES) if processes is None else processes
    guarded(lambda: check_counts(1, MAX_PROCESSES, processes=number), as_json=json)

    async def work(settings: Settings, application: Application) -> Audit:
        with progress("entries proven") as report:
            return await application.verify_ledger(
                report, _verifiers(settings, number, application.policy.chain_keys)
            )

    try:
        audit = with_settings(work, as_json=json)
    except VerifierLost as error:
        complain("verifier_lost", str(error), as_json=json)
        raise SystemExit(ExitCode.REFUSED) from None
    result = {
        "is_sound": audit.is_sound,
        "accounts": audit.accounts,
        "entries": audit.entries,
        "findings": [str(finding) for finding in audit.findings]
        if json
        else "; ".join(map(str, audit.findings)) or None,
    }
    show(result, as_json=json)
    if any("which is not given" in finding.problem for finding in audit.findings):
        print_message(
            "Entries are chained under keys that follow from MEETCORE_SECRETS_KEY: put the earlier ones back "
            "into it, behind the present one.",
            as_json=True,
        )
    if any("behind what is sealed" in finding.problem for finding in audit.findings):
        print_message(
            "After an upgrade from a release without keys, `meetcore credits seal` fixes its entries: once, "
            "when no process of that release runs any more.",
            as_json=True,
        )
    if not audit.is_sound:
        raise SystemExit(ExitCode.REFUSED)
