-- Where in a recorded trace an event happened and a note was requested, as `traceparent` says it; most have none.
ALTER TABLE events ADD COLUMN cause text;
ALTER TABLE notes ADD COLUMN cause text;
