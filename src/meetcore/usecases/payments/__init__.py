"""Use cases of payments for credits.

`start_payment`    the request for a payment
`follow_payments`  notifications of gateways; payments and refunds followed at the gateway
`refunds`          refunds and doubts, decided by operators
`counted_gateway`  the calls of the gateway, counted for operators
"""
