"""`meetcore credits seal`: fix, under a key, what was written before the ledger had one."""

from typing import Annotated

from cyclopts import Parameter

from meetcore.cli.inputs import Json
from meetcore.cli.operator_log import log_action
from meetcore.cli.output import ExitCode, complain, show
from meetcore.cli.runner import with_application
from meetcore.composition.application import Application
from meetcore.usecases.seal_ledger import AlreadySealed, Sealing


def seal_credits(*, again: Annotated[bool, Parameter(negative="")] = False, json: Json = False) -> None:
    """Seal entries of earlier releases. Once after the upgrade, when no process of an earlier release runs.

    Parameters
    ----------
    again:
        Also where it was done before. Look first at what `credits verify` finds.
    """

    async def work(application: Application) -> Sealing:
        done = await application.seal_ledger(again=again)
        log_action("credits seal", {})
        return done

    try:
        done = with_application(work, as_json=json)
    except AlreadySealed as error:
        complain("already_sealed", str(error), as_json=json)
        raise SystemExit(ExitCode.REFUSED) from None
    findings = [str(finding) for finding in done.findings]
    show({"sealed": done.sealed, "findings": findings if json else "; ".join(findings) or None}, as_json=json)
    if findings:
        raise SystemExit(ExitCode.REFUSED)
