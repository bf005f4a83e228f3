"""Midtrans as a payment gateway: Snap's page, the status of its transaction, refunds, and notifications.

A payment's id is its order id there, which Midtrans lets be paid once.
"""

from meetcore.adapters.midtrans.gateway import MidtransAccess, MidtransGateway, midtrans_notifications

__all__ = ["MidtransAccess", "MidtransGateway", "midtrans_notifications"]
