"""Build the use cases of those who sign in: members, guests and operators."""

from attrs import frozen

from meetcore.composition.policy import Policy, Reports
from meetcore.composition.ports import Ports
from meetcore.usecases.key_lookups import DigestMemory, KeyLookups
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.make_portal_link import MakePortalLink
from meetcore.usecases.members import Members
from meetcore.usecases.operator_tokens import OperatorTokens
from meetcore.usecases.operators import Operators
from meetcore.usecases.passkeys import Passkeys
from meetcore.usecases.redeem_sign_in_link import RedeemSignInLink
from meetcore.usecases.request_sign_in_link import RequestSignInLink
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sessions import Sessions
from meetcore.usecases.sign_in_with_identity import (
    CONSOLE_CALLBACK,
    DASHBOARD_CALLBACK,
    SignInWithIdentity,
)
from meetcore.usecases.sign_in_with_passkey import SignInWithPasskey
from meetcore.usecases.sign_up import SignUpForAccount


@frozen
class Access:
    """The use cases of those who sign in."""

    request_link: RequestSignInLink
    redeem_link: RedeemSignInLink
    portal_links: MakePortalLink
    sign_up: SignUpForAccount
    sessions: Sessions
    members: Members
    operators: Operators
    passkeys: Passkeys
    member_passkeys: SignInWithPasskey
    operator_passkeys: SignInWithPasskey
    member_identities: SignInWithIdentity
    operator_identities: SignInWithIdentity
    operator_tokens: OperatorTokens


def build_access(
    ports: Ports, policy: Policy, runtime: Runtime, mails: MailQueue, reports: Reports
) -> Access:
    """Build the use cases, once."""
    lookups = KeyLookups(policy.unknown_keys_at_once, DigestMemory(policy.unknown_key_remembered))
    store, queries, base_url = ports.store, ports.queries, policy.base_url
    return Access(
        RequestSignInLink(store, ports.counters, mails, ports.notifier, runtime, base_url),
        RedeemSignInLink(store, runtime),
        MakePortalLink(store, queries, runtime, base_url),
        SignUpForAccount(store, ports.counters, mails, ports.notifier, runtime, base_url, policy.sign_up),
        Sessions(store, queries, runtime),
        Members(store, queries, mails, ports.notifier, runtime, base_url),
        Operators(store, queries, runtime),
        Passkeys(store, queries, ports.counters, mails, ports.notifier, runtime, base_url, ports.passkeys),
        SignInWithPasskey(store, ports.counters, runtime, ports.passkeys),
        SignInWithPasskey(store, ports.counters, runtime, ports.passkeys, is_operators=True),
        SignInWithIdentity(
            store,
            ports.counters,
            runtime,
            ports.identities,
            base_url + DASHBOARD_CALLBACK,
            sign_up=policy.sign_up,
            report=reports.failed_sign_on,
        ),
        SignInWithIdentity(
            store,
            ports.counters,
            runtime,
            ports.console_identities,
            base_url + CONSOLE_CALLBACK,
            is_operators=True,
            report=reports.failed_sign_on,
        ),
        OperatorTokens(store, queries, ports.counters, runtime, policy.key_prefix, lookups),
    )
