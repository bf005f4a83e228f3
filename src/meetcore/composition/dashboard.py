"""Build the use cases of the dashboard and of the console on those of the API, access and administration."""

from meetcore.composition.access import Access
from meetcore.composition.policy import Policy
from meetcore.composition.ports import Ports
from meetcore.usecases.account_settings import AccountSettings
from meetcore.usecases.administration import Administration
from meetcore.usecases.api import UseCases
from meetcore.usecases.console import ConsoleAudit, ConsoleUseCases
from meetcore.usecases.console_accounts import ConsoleAccounts
from meetcore.usecases.console_hosts import ConsoleHosts
from meetcore.usecases.dashboard import DashboardUseCases
from meetcore.usecases.member_keys import MemberKeys
from meetcore.usecases.member_reads import MemberReads
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.webhooks_by_hand import WebhooksByHand
from meetcore.usecases.work_by_hand import WorkByHand


def build_dashboard(
    ports: Ports,
    policy: Policy,
    runtime: Runtime,
    api: UseCases,
    administration: Administration,
    access: Access,
) -> DashboardUseCases:
    """Build the use cases, once."""
    return DashboardUseCases(
        access.sessions,
        access.request_link,
        access.redeem_link,
        access.members,
        MemberReads(ports.queries),
        MemberKeys(administration, ports.queries, runtime),
        WorkByHand(api),
        WebhooksByHand(api, ports.store, runtime),
        AccountSettings(administration, ports.queries),
        administration,
        runtime,
        policy.sends_mails,
    )


def build_console(
    ports: Ports, policy: Policy, runtime: Runtime, administration: Administration, access: Access
) -> ConsoleUseCases:
    """Build the use cases of the console, once."""
    return ConsoleUseCases(
        access.sessions,
        access.request_link,
        access.redeem_link,
        ConsoleAccounts(administration, ports.queries, runtime),
        ConsoleHosts(administration),
        ConsoleAudit(ports.queries),
        runtime,
        policy.key_prefix,
        policy.sends_mails,
    )
