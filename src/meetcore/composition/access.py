"""Build the use cases of those who sign in: members, guests and operators."""

from attrs import frozen

from meetcore.composition.policy import Policy
from meetcore.composition.ports import Ports
from meetcore.usecases.mail_queue import MailQueue
from meetcore.usecases.make_portal_link import MakePortalLink
from meetcore.usecases.members import Members
from meetcore.usecases.operators import Operators
from meetcore.usecases.redeem_sign_in_link import RedeemSignInLink
from meetcore.usecases.request_sign_in_link import RequestSignInLink
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sessions import Sessions


@frozen
class Access:
    """The use cases of those who sign in."""

    request_link: RequestSignInLink
    redeem_link: RedeemSignInLink
    portal_links: MakePortalLink
    sessions: Sessions
    members: Members
    operators: Operators


def build_access(ports: Ports, policy: Policy, runtime: Runtime, mails: MailQueue) -> Access:
    """Build the use cases, once."""
    store, queries, base_url = ports.store, ports.queries, policy.base_url
    return Access(
        RequestSignInLink(store, ports.counters, mails, ports.notifier, runtime, base_url),
        RedeemSignInLink(store, runtime),
        MakePortalLink(store, queries, runtime, base_url),
        Sessions(store, queries, runtime),
        Members(store, queries, mails, ports.notifier, runtime, base_url),
        Operators(store, queries, runtime),
    )
