"""Stripe as a payment gateway: Checkout Sessions, refunds and webhooks, by Stripe's own library."""

from meetcore.adapters.stripe.gateway import StripeGateway, stripe_notifications

__all__ = ["StripeGateway", "stripe_notifications"]
