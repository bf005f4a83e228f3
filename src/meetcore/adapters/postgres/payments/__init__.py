"""Payments for credits.

`payments`  payments, refunds, receipts, messages of gateways, billing details
`reads`     payments, for customers and operators
"""
