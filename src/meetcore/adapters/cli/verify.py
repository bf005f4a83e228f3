"""`meetcore credits verify`: prove the ledger."""

from typing import Annotated

from cyclopts import Parameter

from meetcore.adapters.cli.output import ExitCode, show
from meetcore.adapters.cli.progress import progress
from meetcore.adapters.cli.runner import with_wiring
from meetcore.usecases.verify_ledger import Audit
from meetcore.wiring import Wiring

__all__ = ["verify_credits"]


def verify_credits(*, json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Prove the ledger: chains, balances, holds, legs, refunds, caps. Ends with 1 if anything is wrong.

    Parameters
    ----------
    json:
        Print one JSON document.
    """

    async def work(wiring: Wiring) -> Audit:
        with progress("entries proven") as report:
            return await wiring.verify_ledger(report)

    audit = with_wiring(work, as_json=json)
    told = {
        "is_sound": audit.is_sound,
        "accounts": audit.accounts,
        "entries": audit.entries,
        "findings": [str(finding) for finding in audit.findings]
        if json
        else "; ".join(map(str, audit.findings)) or None,
    }
    show(told, as_json=json)
    if not audit.is_sound:
        raise SystemExit(ExitCode.REFUSED)
