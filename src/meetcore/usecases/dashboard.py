"""The use cases that the dashboard calls."""

from attrs import frozen

from meetcore.ports.document_printer import DocumentPrinter
from meetcore.usecases.account_data import AccountData
from meetcore.usecases.account_settings import AccountSettings
from meetcore.usecases.administration import Administration
from meetcore.usecases.member_keys import MemberKeys
from meetcore.usecases.member_reads import MemberReads
from meetcore.usecases.members import Members
from meetcore.usecases.passkeys import Passkeys
from meetcore.usecases.redeem_sign_in_link import RedeemSignInLink
from meetcore.usecases.request_sign_in_link import RequestSignInLink
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sessions import Sessions
from meetcore.usecases.sign_in_with_identity import SignInWithIdentity
from meetcore.usecases.sign_in_with_passkey import SignInWithPasskey
from meetcore.usecases.sign_up import SignUpForAccount
from meetcore.usecases.statements import Statements
from meetcore.usecases.webhooks_by_hand import WebhooksByHand
from meetcore.usecases.work_by_hand import WorkByHand


@frozen
class DashboardUseCases:
    """What members do and read, each by their role. `sends_mail` is whether sign-in links can be sent."""

    sessions: Sessions
    request_link: RequestSignInLink
    redeem_link: RedeemSignInLink
    sign_up: SignUpForAccount
    passkeys: Passkeys
    passkey_sign_in: SignInWithPasskey
    identity_sign_in: SignInWithIdentity
    members: Members
    reads: MemberReads
    keys: MemberKeys
    by_hand: WorkByHand
    webhooks: WebhooksByHand
    settings: AccountSettings
    statements: Statements
    printer: DocumentPrinter
    account_data: AccountData
    administration: Administration
    runtime: Runtime
    sends_mail: bool = False
