"""Xendit as a payment gateway: payment sessions, the payments made in them, refunds, and notifications."""

from meetcore.adapters.xendit.gateway import XenditGateway, xendit_notifications

__all__ = ["XenditGateway", "xendit_notifications"]
