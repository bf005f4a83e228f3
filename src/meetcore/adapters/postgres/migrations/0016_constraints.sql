-- Every enum has a CHECK, and the notes and transcripts of a recording have a foreign key.
-- They hold for new rows from here on; the next migration proves the old ones, without a lock that stops the service.
ALTER TABLE api_keys ADD CONSTRAINT api_keys_scopes_check CHECK (scopes <@ ARRAY[
    'meetings:read', 'meetings:write', 'notulen:read', 'notulen:write', 'recordings:read', 'recordings:write',
    'credits:read', 'webhooks:read', 'webhooks:write']) NOT VALID;
ALTER TABLE ledger_transfers
    ADD CONSTRAINT ledger_transfers_source_check
        CHECK (source IN ('customer', 'topups', 'meetings', 'notulen', 'adjustments')) NOT VALID,
    ADD CONSTRAINT ledger_transfers_destination_check
        CHECK (destination IN ('customer', 'topups', 'meetings', 'notulen', 'adjustments')) NOT VALID;
ALTER TABLE ledger_entries ADD CONSTRAINT ledger_entries_book_check
    CHECK (book IN ('customer', 'topups', 'meetings', 'notulen', 'adjustments')) NOT VALID;
ALTER TABLE ledger_holds ADD CONSTRAINT ledger_holds_kind_check
    CHECK (kind IN ('topup', 'meeting_charge', 'meeting_refund', 'notulen_charge', 'adjustment')) NOT VALID;
ALTER TABLE meetings ADD CONSTRAINT meetings_status_check CHECK (status IN (
    'provisioning', 'scheduled', 'cancelling', 'started', 'ended', 'cancelled', 'abandoned')) NOT VALID;
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_event_types_check CHECK (event_types <@ ARRAY[
    'note.completed', 'note.failed', 'meeting.created', 'meeting.ended', 'recording.ready', 'credit.low',
    'credit.topup.succeeded', 'webhook.test']) NOT VALID;
ALTER TABLE events ADD CONSTRAINT events_kind_check CHECK (kind IN (
    'note.completed', 'note.failed', 'meeting.created', 'meeting.ended', 'recording.ready', 'credit.low',
    'credit.topup.succeeded', 'webhook.test')) NOT VALID;
ALTER TABLE deliveries ADD CONSTRAINT deliveries_event_kind_check CHECK (event_kind IN (
    'note.completed', 'note.failed', 'meeting.created', 'meeting.ended', 'recording.ready', 'credit.low',
    'credit.topup.succeeded', 'webhook.test')) NOT VALID;
ALTER TABLE provider_events ADD CONSTRAINT provider_events_kind_check
    CHECK (kind IN ('meeting_started', 'meeting_ended', 'recording_ready')) NOT VALID;
ALTER TABLE rate_counters ADD CONSTRAINT rate_counters_class_check
    CHECK (class IN ('read', 'write', 'credit', 'tool')) NOT VALID;
ALTER TABLE notes ADD CONSTRAINT notes_account_id_recording_id_fkey
    FOREIGN KEY (account_id, recording_id) REFERENCES recordings NOT VALID;
ALTER TABLE transcript_chunks ADD CONSTRAINT transcript_chunks_account_id_recording_id_fkey
    FOREIGN KEY (account_id, recording_id) REFERENCES recordings NOT VALID;
