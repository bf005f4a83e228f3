-- find_payment: One of an account's payments, with its refund and its receipt. The payment is selected last: the account
-- of all three is one column, which the other two may lack.
SELECT {REFUND.select}, {RECEIPT.select}, {PAYMENT.select}
FROM payments p LEFT JOIN payment_refunds r ON r.payment_id = p.id LEFT JOIN receipts c ON c.payment_id = p.id
WHERE p.account_id = %(account_id)s AND p.id = %(id)s

-- list_payments: A page of an account's payments, with their refunds.
SELECT {REFUND.select}, {PAYMENT.select} FROM payments p LEFT JOIN payment_refunds r ON r.payment_id = p.id
WHERE p.account_id = %(account_id)s AND p.id < %(before)s ORDER BY p.id DESC LIMIT %(limit)s

-- list_papers: The payments of an account that were paid, or whose refund was made or failed, in a time.
SELECT {REFUND.select}, {RECEIPT.select}, {PAYMENT.select}
FROM payments p JOIN receipts c ON c.payment_id = p.id LEFT JOIN payment_refunds r ON r.payment_id = p.id
WHERE p.account_id = %(account_id)s AND (
    c.issued_at >= %(begins_at)s AND c.issued_at < %(ends_at)s
    OR r.created_at >= %(begins_at)s AND r.created_at < %(ends_at)s
    OR r.failed_at >= %(begins_at)s AND r.failed_at < %(ends_at)s
)
ORDER BY p.id

-- list_all_payments: A page of the payments of every account, with their refunds.
SELECT {REFUND.select}, {PAYMENT.select}, a.full_name FROM payments p JOIN accounts a ON a.id = p.account_id
LEFT JOIN payment_refunds r ON r.payment_id = p.id
WHERE p.id < %(before)s ORDER BY p.id DESC LIMIT %(limit)s

-- list_payments_in_doubt: A page of the payments that operators have to look at, with their refunds.
SELECT {REFUND.select}, {PAYMENT.select}, a.full_name FROM payments p JOIN accounts a ON a.id = p.account_id
LEFT JOIN payment_refunds r ON r.payment_id = p.id
WHERE p.id < %(before)s AND p.doubt IS NOT NULL AND p.doubt_closed_at IS NULL ORDER BY p.id DESC LIMIT %(limit)s

-- find_payment_page: A payment of any account, with its refund, its receipt, its messages, the latest first, who
-- settled its latest doubt, and the member who began it. The payment is selected last, as above.
SELECT {REFUND.select}, {RECEIPT.select}, {PAYMENT.select}, a.full_name, said.times, said.sources, said.bodies,
    settled.actor_name AS closed_by, settled.details->>'reason' AS closing_reason,
    (
        SELECT CASE b.actor_kind WHEN 'member' THEN (SELECT u.email FROM users u WHERE u.id = b.actor_id)
            ELSE b.actor_name END
        FROM audit_log b
        WHERE b.target_id = p.id::text AND b.action = 'payment.started' ORDER BY b.id LIMIT 1
    ) AS begun_by
FROM payments p JOIN accounts a ON a.id = p.account_id
LEFT JOIN payment_refunds r ON r.payment_id = p.id LEFT JOIN receipts c ON c.payment_id = p.id
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(at ORDER BY number DESC), ARRAY[]::timestamptz[]) AS times,
        coalesce(array_agg(source::text ORDER BY number DESC), ARRAY[]::text[]) AS sources,
        coalesce(array_agg(body ORDER BY number DESC), ARRAY[]::text[]) AS bodies
    FROM payment_messages WHERE payment_id = p.id
) AS said
LEFT JOIN LATERAL (
    SELECT g.actor_name, g.details FROM audit_log g
    WHERE p.doubt_closed_at IS NOT NULL AND g.target_id = p.id::text
        AND g.action IN ('payment.accepted', 'payment.dismissed')
    ORDER BY g.id DESC LIMIT 1
) AS settled ON true
WHERE p.id = %(id)s

-- list_income: The money of paid payments by month (WIB) and currency, and what was sent back by its month. A refund
-- that failed is taken off in the month in which it failed: what a month had does not change later.
SELECT month, currency, sum(received)::bigint AS received, sum(tax)::bigint AS tax, sum(refunded)::bigint AS refunded,
    sum(payments)::bigint AS payments
FROM (
    SELECT date_trunc('month', ended_at AT TIME ZONE 'Asia/Jakarta')::date AS month, currency, price + tax AS received, tax,
        0 AS refunded, 1 AS payments
    FROM payments WHERE status IN ('paid', 'refunded')
    UNION ALL
    SELECT date_trunc('month', r.created_at AT TIME ZONE 'Asia/Jakarta')::date, p.currency, 0, 0, r.amount, 0
    FROM payment_refunds r JOIN payments p ON p.id = r.payment_id
    UNION ALL
    SELECT date_trunc('month', r.failed_at AT TIME ZONE 'Asia/Jakarta')::date, p.currency, 0, 0, -r.amount, 0
    FROM payment_refunds r JOIN payments p ON p.id = r.payment_id WHERE r.failed_at IS NOT NULL
) AS moved
GROUP BY month, currency ORDER BY month DESC, currency
