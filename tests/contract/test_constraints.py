"""A CHECK on each enum, a foreign key or a reason on each reference, and no index that another one covers."""

import re
from enum import StrEnum

import psycopg
import pytest

from meetcore.adapters.postgres.migrate import load_migrations
from meetcore.adapters.sandbox.state import SandboxMeetingState
from meetcore.domain.mails.contents import MailKind
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.meetings.provider_events import ProviderEventKind
from meetcore.domain.members.audit import ActorKind
from meetcore.domain.members.passkeys import ChallengePurpose
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sign_in import LinkPurpose
from meetcore.domain.money.ledger import Book, TransferKind
from meetcore.domain.money.proposals import ProposalKind
from meetcore.domain.notes.notes import Language, NoteStatus, NoteStep
from meetcore.domain.notes.recordings import RecordingStatus
from meetcore.domain.payments.payments import Doubt, GatewayStatus, PaymentStatus
from meetcore.domain.payments.views import MessageSource
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.domain.requests.retention import RemovedKind
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.domain.webhooks.endpoints import EndpointState
from meetcore.domain.webhooks.events import EventKind
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import open_customer

ENUMS: dict[str, type[StrEnum]] = {
    "retention_progress.kind": RemovedKind,
    "api_keys.scopes": Scope,
    "oauth_authorizations.scopes": Scope,
    "audit_log.actor_kind": ActorKind,
    "deliveries.event_kind": EventKind,
    "invitations.role": Role,
    "memberships.role": Role,
    "credit_proposals.kind": ProposalKind,
    "operator_tokens.role": OperatorRole,
    "operators.role": OperatorRole,
    "sessions.guest_role": Role,
    "sign_in_links.guest_role": Role,
    "sign_in_links.purpose": LinkPurpose,
    "deliveries.status": DeliveryStatus,
    "events.kind": EventKind,
    "ledger_day_totals.kind": TransferKind,
    "ledger_entries.book": Book,
    "note_holds.kind": TransferKind,
    "ledger_transfers.destination": Book,
    "ledger_transfers.kind": TransferKind,
    "ledger_transfers.source": Book,
    "mails.kind": MailKind,
    "mails.language": Language,
    "users.language": Language,
    "meetings.status": MeetingStatus,
    "notes.language": Language,
    "notes.status": NoteStatus,
    "notes.step": NoteStep,
    "provider_events.kind": ProviderEventKind,
    "rate_counters.class": OperationClass,
    "payment_messages.source": MessageSource,
    "payments.doubt": Doubt,
    "payments.status": PaymentStatus,
    "recordings.status": RecordingStatus,
    "sandbox_payments.status": GatewayStatus,
    "passkey_challenges.purpose": ChallengePurpose,
    "sandbox_meetings.state": SandboxMeetingState,
    "webhook_endpoints.event_types": EventKind,
    "webhook_endpoints.state": EndpointState,
}

_FREE_TEXT = """
 api_requests.client_address api_requests.code api_requests.details api_requests.message
 api_requests.method api_requests.path
 payment_messages.body payment_refunds.reason payments.currency payments.gateway payments.method
 payments.package_id payments.payment_url payments.reference payments.transaction_id
 billing_details.address billing_details.name
 billing_details.tax_number receipts.buyer_address receipts.buyer_name receipts.buyer_tax_number
 receipts.seller_address receipts.seller_name receipts.seller_tax_number sandbox_payments.currency
 sandbox_payments.description sandbox_payments.paid_currency sandbox_payments.return_url
 accounts.email accounts.full_name accounts.suspension_reason api_keys.client_id api_keys.last_four
 api_keys.name oauth_authorizations.client_id oauth_authorizations.code_challenge
 oauth_authorizations.redirect_uri
 oauth_authorizations.state oauth_clients.id oauth_clients.name oauth_clients.redirect_uris
 audit_log.action audit_log.actor_name audit_log.client_address audit_log.target_id
 deliveries.lease_host deliveries.success_address deliveries.success_response_excerpt
 delivery_attempts.address
 delivery_attempts.error delivery_attempts.request_headers delivery_attempts.response_excerpt
 delivery_attempts.response_headers events.cause hosts.provider_user_id
idempotency_keys.key invitations.email operator_sessions.client_address operator_sessions.user_agent
operators.email identities.issuer identities.subject passkeys.name sign_ups.email sign_ups.full_name
sessions.client_address sessions.user_agent users.email users.full_name
note_holds.operation note_holds.reference_id note_holds.reference_type
ledger_transfers.operation ledger_transfers.reference_id ledger_transfers.reference_type
credit_proposals.decider credit_proposals.proposer credit_proposals.reason credit_proposals.reference
mails.counted_as mails.last_error mails.recipient operator_tokens.last_four operator_tokens.name
meetings.description meetings.idempotency_key meetings.pricing_tier_id
meetings.provider meetings.provider_meeting_id meetings.title notes.cause notes.error notes.written_by
provider_events.provider
recordings.provider recordings.provider_meeting_id sandbox_host_keys.host_key
sandbox_host_keys.provider_user_id sandbox_meetings.provider_meeting_id
sandbox_removed_files.provider_file_id sandbox_removed_files.provider_meeting_id
meeting_sessions.provider_session_id sandbox_sessions.provider_meeting_id
transcript_chunks.source webhook_account_hosts.host webhook_endpoints.created_by
webhook_endpoints.description webhook_endpoints.host webhook_endpoints.url webhook_endpoints.url_key
webhook_hosts.host
    ledger_verification.findings
"""
FREE_TEXT = set(_FREE_TEXT.split())

_TEXTS = """
SELECT c.relname || '.' || a.attname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND a.attnum > 0 AND NOT a.attisdropped AND format_type(a.atttypid, NULL) IN ('text', 'text[]')
    AND NOT starts_with(c.relname, 'schema_migrations')
"""
_CHECKS = """
SELECT c.conrelid::regclass || '.' || a.attname AS name, pg_get_constraintdef(c.oid) AS definition
FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
WHERE c.contype = 'c' AND c.convalidated
"""
_REFERENCES = """
SELECT c.relname || '.' || a.attname AS name, EXISTS (
    SELECT FROM pg_constraint k
    WHERE k.conrelid = c.oid AND k.contype = 'f' AND a.attnum = ANY (k.conkey)) AS is_idempotency_key
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND a.attnum > 0 AND NOT a.attisdropped
    AND (format_type(a.atttypid, NULL) = 'uuid' AND a.attname !~ '(^id|token)$' OR a.attname ~ '_id$')
"""
# Pairs of indexes with one condition, the first of which is not unique and begins the second.
_REDUNDANT = """
SELECT a.indexrelid::regclass::text AS name, b.indexrelid::regclass::text AS covered_by
FROM pg_index a JOIN pg_index b ON b.indrelid = a.indrelid AND b.indexrelid <> a.indexrelid
JOIN pg_class ca ON ca.oid = a.indexrelid JOIN pg_class cb ON cb.oid = b.indexrelid AND cb.relam = ca.relam
WHERE NOT a.indisunique AND a.indexprs IS NULL AND b.indexprs IS NULL
    AND pg_get_expr(a.indpred, a.indrelid) IS NOT DISTINCT FROM pg_get_expr(b.indpred, b.indrelid)
    AND b.indkey::text || ' ' LIKE a.indkey::text || ' %%'
"""


async def test_each_enum_has_a_check_with_its_values(rig: PostgresRig) -> None:
    found = {row["name"]: row["definition"] for row in await rig.rows(_CHECKS)}
    for name, enum in ENUMS.items():
        assert set(re.findall(r"'([^']*)'", found[name])) == {member.value for member in enum}, name


async def test_each_text_column_is_an_enum_or_free(rig: PostgresRig) -> None:
    texts = {row["name"] for row in await rig.rows(_TEXTS)}
    assert texts == set(ENUMS) | FREE_TEXT
    assert not FREE_TEXT & set(ENUMS)


async def test_each_reference_has_a_foreign_key_or_a_reason(rig: PostgresRig) -> None:
    schema = "".join(step.text for step in load_migrations())
    reasons = set(re.findall(r"^--   (\w+)  ", schema, re.MULTILINE))
    explained = {
        f"{table}.{column}"
        for table, body in re.findall(r"^CREATE (?:UNLOGGED )?TABLE (\w+) \((.*?)^\)", schema, re.M | re.S)
        for column, reason in re.findall(r"^    (\w+) .*-- no foreign key: (\w+)$", body, re.M)
        if reason in reasons
    }
    found = {row["name"]: row["is_idempotency_key"] for row in await rig.rows(_REFERENCES)}
    assert {name for name, is_idempotency_key in found.items() if not is_idempotency_key} == explained


async def test_no_index_is_the_beginning_of_another(rig: PostgresRig) -> None:
    assert await rig.rows(_REDUNDANT) == []


_DECIDED = """
WITH people AS (
    INSERT INTO operators (id, email, role, created_at, removed_at)
    VALUES (gen_random_uuid(), 'ops@example.com', 'finance', now(), now()),
        (gen_random_uuid(), 'ops@example.com', 'finance', now(), now()) RETURNING id
)
INSERT INTO credit_proposals (id, account_id, kind, amount, reason, reference, proposed_by, proposer,
    created_at, expires_at, is_approved, decided_by, decider, decided_at)
SELECT gen_random_uuid(), %(account_id)s, 'topup', 1, 'x', 'x', (SELECT id FROM people LIMIT 1),
    'ops@example.com', now(), now(), true, (SELECT id FROM people OFFSET 1), %(decider)s, now()
"""


async def test_a_proposal_is_decided_by_another_person_not_another_id(rig: PostgresRig) -> None:
    account_id = (await open_customer(rig, 1)).account_id
    with pytest.raises(psycopg.errors.CheckViolation, match="credit_proposals_by_another"):
        await rig.rows(_DECIDED, account_id=account_id, decider="OPS@example.com")
    await rig.rows(_DECIDED, account_id=account_id, decider="other@example.com")
