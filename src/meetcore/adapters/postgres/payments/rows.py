"""The columns of payments, refunds, receipts and billing details."""

from meetcore.adapters.postgres.columns import Columns
from meetcore.domain.payments.payments import Payment
from meetcore.domain.payments.receipts import Buyer, Receipt
from meetcore.domain.payments.refunds import Refund

PAYMENT = Columns(Payment, "p", "payment_")
REFUND = Columns(Refund, "r", "refund_")
RECEIPT = Columns(Receipt, "c", "receipt_", nested={"seller": "seller_", "buyer": "buyer_"})
BUYER = Columns(Buyer, "b", "buyer_")
