-- add_payment: Write a payment.
INSERT INTO payments ({PAYMENT.names}) VALUES ({PAYMENT.values})

-- count_pending: The payments of an account that can still be paid.
SELECT count(*) AS pending FROM payments WHERE account_id = %(account_id)s AND status = 'pending'

-- lock_account_of_payment: Take the lock of a payment's account, so that waiting readers read again.
UPDATE accounts a SET version = version + 1 FROM payments p
WHERE p.id = %(id)s AND a.id = p.account_id RETURNING a.id

-- load_payment: A payment, and whether its account was erased.
SELECT {PAYMENT.select}, EXISTS (SELECT FROM account_erasures e WHERE e.account_id = p.account_id) AS is_erased
FROM payments p WHERE p.id = %(id)s

-- find_by_transaction: The payment with the gateway's id of its transaction.
SELECT id FROM payments WHERE transaction_id = %(transaction_id)s LIMIT 1

-- save_payment: Write what changes of a payment.
UPDATE payments SET status = %(payment_status)s, reference = %(payment_reference)s,
    payment_url = %(payment_payment_url)s, method = %(payment_method)s,
    transaction_id = %(payment_transaction_id)s, ended_at = %(payment_ended_at)s,
    next_look_at = %(payment_next_look_at)s, looks = %(payment_looks)s, doubt = %(payment_doubt)s,
    doubt_closed_at = %(payment_doubt_closed_at)s
WHERE id = %(payment_id)s

-- add_message: Keep what a gateway said, and no more than the last messages.
WITH latest AS (
    SELECT COALESCE(max(number), 0) + 1 AS number FROM payment_messages WHERE payment_id = %(payment_id)s
), dropped AS (
    DELETE FROM payment_messages m USING latest
    WHERE m.payment_id = %(payment_id)s AND m.number <= latest.number - {MAX_MESSAGES}
)
INSERT INTO payment_messages (payment_id, number, at, source, body)
SELECT %(payment_id)s, number, %(at)s, %(source)s, %(body)s FROM latest

-- claim_due: Take the payments that are due, the longest due first; they are due again after the lease. The bound is
-- the statement's time: a volatile one could not bound the scan of the index.
WITH due AS (
    SELECT id FROM payments WHERE next_look_at <= statement_timestamp()
    ORDER BY next_look_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE payments p SET next_look_at = clock_timestamp() + %(lease_s)s * interval '1 second'
FROM due WHERE p.id = due.id RETURNING {PAYMENT.select}

-- add_refund: Write the refund of a payment.
INSERT INTO payment_refunds ({REFUND.names}) VALUES ({REFUND.values})

-- load_refund: The refund of a payment, if there is one.
SELECT {REFUND.select} FROM payment_refunds r WHERE r.payment_id = %(payment_id)s

-- save_refund: What became of the money of a refund.
UPDATE payment_refunds SET paid_back_at = %(refund_paid_back_at)s, refused_at = %(refund_refused_at)s,
    failed_at = %(refund_failed_at)s
WHERE payment_id = %(refund_payment_id)s

-- next_receipt_number: Take the next number of a year. Its row stays locked until the commit.
INSERT INTO receipt_years AS y (year, last_number) VALUES (%(year)s, 1)
ON CONFLICT (year) DO UPDATE SET last_number = y.last_number + 1 RETURNING last_number

-- add_receipt: Write a receipt.
INSERT INTO receipts ({RECEIPT.names}) VALUES ({RECEIPT.values})

-- find_buyer: Whom an account's receipts are made out to: its billing details, else its name.
SELECT COALESCE(b.name, a.full_name) AS buyer_name, COALESCE(b.address, '') AS buyer_address,
    COALESCE(b.tax_number, '') AS buyer_tax_number
FROM accounts a LEFT JOIN billing_details b ON b.account_id = a.id WHERE a.id = %(account_id)s

-- save_buyer: Write the billing details of an account.
INSERT INTO billing_details (account_id, name, address, tax_number)
VALUES (%(account_id)s, %(buyer_name)s, %(buyer_address)s, %(buyer_tax_number)s)
ON CONFLICT (account_id) DO UPDATE
SET name = EXCLUDED.name, address = EXCLUDED.address, tax_number = EXCLUDED.tax_number
