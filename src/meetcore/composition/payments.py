"""Build the use cases of payments, once for an application."""

from attrs import frozen

from meetcore.composition.application import Application
from meetcore.usecases.payments.credit_mails import CreditMails
from meetcore.usecases.payments.follow_payments import FollowPayments, ReceiveNotification, SettlePayment
from meetcore.usecases.payments.refunds import ConsolePayments
from meetcore.usecases.payments.start_payment import StartPayment


@frozen
class Payments:
    """The use cases of payments; `follow` where a gateway is set."""

    start: StartPayment
    receive_notification: ReceiveNotification
    settle: SettlePayment
    follow: FollowPayments | None
    console: ConsolePayments


def build_payments(app: Application) -> Payments:
    """Build the use cases."""
    ports, policy, runtime, reports = app.ports, app.policy, app.runtime, app.reports
    store, gateway, notifier = ports.store, ports.gateway, ports.notifier
    settle = SettlePayment(runtime, policy.packages.seller, CreditMails(app.mail_queue))
    return Payments(
        StartPayment(store, gateway, policy.packages, runtime, policy.base_url),
        ReceiveNotification(store, notifier, runtime, reports.payment),
        settle,
        None if gateway is None else FollowPayments(
            store, gateway, settle, notifier, runtime, reports.payment
        ),
        ConsolePayments(store, ports.queries, settle, notifier, runtime),
    )  # fmt: skip
