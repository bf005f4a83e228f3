"""`meetcore credits`: top up, correct a balance by hand, and prove the ledger."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter

from meetcore.adapters.settings import Settings
from meetcore.adapters.system import cores
from meetcore.cli.inputs import InputRefused, Json, Whole, check_counts, check_texts
from meetcore.cli.output import ExitCode, Record, complain, print_message, progress, show
from meetcore.cli.runner import read_account, show_change, with_settings
from meetcore.composition.application import Application
from meetcore.domain.fields import shown_fields
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.money import hash_chain, ledger
from meetcore.usecases.money.credit_postings import Posted
from meetcore.usecases.money.verify_ledger import Audit, VerifierLost, Verifiers

MAX_PROCESSES = 64

credits_ = App(name="credits", help="Credits: top up, and prove the ledger.")


@credits_.command(name="topup")
def top_up(*, account: str, amount: Whole, reference: str | None = None, json: Json = False) -> None:
    """Add paid credits. The same reference again changes nothing and prints the first top-up.

    Parameters
    ----------
    account:
        The account's id or e-mail address.
    amount:
        Whole credits.
    reference:
        The payment's own name, such as an invoice number.
    """
    account_id = read_account(account, "--account", as_json=json)
    check_counts(1, ledger.MAX_CREDITS, amount=amount)
    check_texts(reference=reference)

    show_change(
        "credits topup",
        lambda app: app.administration.top_up(account_id, amount, reference),
        lambda done: _entry(done, reference=done.entry.transfer.reference.id),
        as_json=json,
        is_repeatable=reference is not None,
    )


@credits_.command(name="adjust")
def adjust_credits(
    *,
    account: str,
    amount: Annotated[Whole, Parameter(allow_leading_hyphen=True)],
    reason: str,
    reference: str | None = None,
    json: Json = False,
) -> None:
    """Grant credits without a payment, or take some back. The same reference again changes nothing.

    Parameters
    ----------
    account:
        The account's id or e-mail address.
    amount:
        Whole credits; negative to take, no more than is available.
    reason:
        What it is for. The customer reads it in the ledger.
    reference:
        Your own name for it, such as a ticket's number; once for each.
    """
    account_id = read_account(account, "--account", as_json=json)
    check_counts(-ledger.MAX_CREDITS, ledger.MAX_CREDITS, amount=amount)
    if not amount:
        raise InputRefused("--amount must not be 0: a positive one grants credits, a negative one takes them")
    check_texts(reason=reason, reference=reference)

    show_change(
        "credits adjust",
        lambda app: app.administration.adjust(account_id, amount, reason, reference),
        lambda done: _entry(
            done,
            reason=done.entry.transfer.reference.id,
            reference=done.entry.transfer.operation.partition(":")[2],
        ),
        as_json=json,
        is_repeatable=reference is not None,
    )


def _entry(done: Posted, **more: str) -> Record:
    entry = done.entry
    return {
        "id": str(entry.transfer.id),
        **shown_fields(entry, "account_id", "amount"),
        **more,
        "balance_after": entry.balance_after,
        "balance": done.balance,
        "is_new": done.is_new,
        "created_at": utc_text(entry.at),
    }


@credits_.command(name="verify")
def verify_credits(*, processes: Whole | None = None, json: Json = False) -> None:
    """Prove the ledger: chains, balances, holds, totals, legs, refunds, caps. Ends with 1 if any is wrong.

    Parameters
    ----------
    processes:
        How many processes at most; as many as there are cores when not given. Each has a connection.
    """
    number = min(cores(), MAX_PROCESSES) if processes is None else processes
    check_counts(1, MAX_PROCESSES, processes=number)

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
    findings = [str(finding) for finding in audit.findings]
    shown_findings = findings if json else "; ".join(findings) or None
    show(shown_fields(audit, "is_sound", "accounts", "entries") | {"findings": shown_findings}, as_json=json)
    if any("which is not given" in finding.problem for finding in audit.findings):
        print_message(
            "Entries are chained under keys that follow from MEETCORE_SECRETS_KEY: put the earlier ones back "
            "into it, behind the present one.",
            as_json=True,
        )
    if not audit.is_sound:
        raise SystemExit(ExitCode.REFUSED)


def _verifiers(settings: Settings, processes: int, keys: Sequence[hash_chain.ChainKey]) -> Verifiers:
    """Return processes that join the snapshot at the database itself: a pooler may refuse their sessions."""
    from meetcore.composition.verification import verifiers_of  # other commands start no processes

    url = str(settings.database_direct_url)
    if not url:
        processes = 1 if settings.is_pooled else processes
        url = settings.require_database()
    return verifiers_of(url, processes, keys)
