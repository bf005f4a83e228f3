"""Build the use cases of the dashboard and of the console on those of the API, access and administration."""

from meetcore.composition.access import Access
from meetcore.composition.policy import Policy
from meetcore.composition.ports import Ports
from meetcore.ports.video_provider import VideoProvider
from meetcore.usecases.account_data import AccountData
from meetcore.usecases.account_settings import AccountSettings
from meetcore.usecases.administration import Administration
from meetcore.usecases.api import UseCases
from meetcore.usecases.console import ConsoleAudit, ConsoleUseCases
from meetcore.usecases.console_accounts import ConsoleAccounts
from meetcore.usecases.console_health import ConsoleHealth, ConsolePrices
from meetcore.usecases.console_hosts import ConsoleHosts
from meetcore.usecases.console_liability import ConsoleLiability
from meetcore.usecases.dashboard import DashboardUseCases
from meetcore.usecases.impersonate import Impersonate
from meetcore.usecases.member_keys import MemberKeys
from meetcore.usecases.member_reads import MemberReads
from meetcore.usecases.proposals import Proposals
from meetcore.usecases.resolve_doubts import ResolveDoubts
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.statements import Statements
from meetcore.usecases.webhooks_by_hand import WebhooksByHand
from meetcore.usecases.work_by_hand import WorkByHand


def build_dashboard(
    ports: Ports,
    policy: Policy,
    runtime: Runtime,
    api: UseCases,
    administration: Administration,
    access: Access,
    account_data: AccountData,
) -> DashboardUseCases:
    """Build the use cases, once."""
    return DashboardUseCases(
        access.sessions,
        access.request_link,
        access.redeem_link,
        access.sign_up,
        access.passkeys,
        access.member_passkeys,
        access.member_identities,
        access.members,
        MemberReads(ports.queries),
        MemberKeys(administration, ports.queries, runtime),
        WorkByHand(api),
        WebhooksByHand(api, ports.store, runtime),
        AccountSettings(administration, ports.queries),
        Statements(ports.queries),
        ports.printer,
        account_data,
        administration,
        runtime,
        policy.sends_mails,
    )


def build_console(
    ports: Ports,
    policy: Policy,
    runtime: Runtime,
    administration: Administration,
    access: Access,
    provider: VideoProvider,
) -> ConsoleUseCases:
    """Build the use cases of the console, once."""
    proposals = Proposals(administration, ports.queries, policy.four_eyes_above)
    return ConsoleUseCases(
        access.sessions,
        access.request_link,
        access.redeem_link,
        access.passkeys,
        access.operator_passkeys,
        access.operator_identities,
        access.portal_links,
        access.operator_tokens,
        ConsoleAccounts(administration, ports.queries, runtime, proposals),
        ConsoleHosts(administration, ports.queries),
        ResolveDoubts(ports.store, ports.queries, provider, ports.notifier, runtime),
        ConsoleLiability(ports.queries),
        ConsoleHealth(ports.queries, ports.check_health, runtime),
        ConsolePrices(policy.catalogue, provider, ports.registry),
        Impersonate(ports.store, runtime),
        proposals,
        ConsoleAudit(ports.queries),
        runtime,
        policy.key_prefix,
        policy.sends_mails,
    )
