-- Proves the constraints of the migration before for the rows that it found. The tables are read while the service goes on.
ALTER TABLE api_keys VALIDATE CONSTRAINT api_keys_scopes_check;
ALTER TABLE ledger_transfers VALIDATE CONSTRAINT ledger_transfers_source_check,
    VALIDATE CONSTRAINT ledger_transfers_destination_check;
ALTER TABLE ledger_entries VALIDATE CONSTRAINT ledger_entries_book_check;
ALTER TABLE ledger_holds VALIDATE CONSTRAINT ledger_holds_kind_check;
ALTER TABLE meetings VALIDATE CONSTRAINT meetings_status_check;
ALTER TABLE webhook_endpoints VALIDATE CONSTRAINT webhook_endpoints_event_types_check;
ALTER TABLE events VALIDATE CONSTRAINT events_kind_check;
ALTER TABLE deliveries VALIDATE CONSTRAINT deliveries_event_kind_check;
ALTER TABLE provider_events VALIDATE CONSTRAINT provider_events_kind_check;
ALTER TABLE rate_counters VALIDATE CONSTRAINT rate_counters_class_check;
ALTER TABLE notes VALIDATE CONSTRAINT notes_account_id_recording_id_fkey;
ALTER TABLE transcript_chunks VALIDATE CONSTRAINT transcript_chunks_account_id_recording_id_fkey;
