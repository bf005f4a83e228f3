"""The outbox of mails."""
