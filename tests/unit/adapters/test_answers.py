"""The bytes of an answer hold a record's fields as events hold them: the same names, order and texts."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from meetcore.adapters.api.answers import render_record
from meetcore.domain.fields import as_json
from meetcore.domain.records.meetings import meeting_record
from meetcore.domain.records.notes import note_record
from meetcore.domain.records.webhooks import delivery_record
from meetcore.testing.strategies.meetings import meetings, notes
from meetcore.testing.strategies.moments import near
from meetcore.testing.strategies.webhooks import attempts, deliveries

START = datetime(2026, 12, 1, 2, tzinfo=UTC)

records = st.one_of(
    st.builds(meeting_record, meetings(START), near(START)),
    st.builds(note_record, notes()),
    st.builds(delivery_record, deliveries(), st.lists(attempts(), max_size=3)),
)


@given(records)
def test_a_record_has_one_form_in_answers_and_in_events(record: object) -> None:
    page = {"data": [record], "next_cursor": None}
    assert json.loads(render_record(200, record).body, object_pairs_hook=list) == json.loads(
        json.dumps(as_json(record)), object_pairs_hook=list
    )
    assert json.loads(render_record(200, page).body) == {"data": [as_json(record)], "next_cursor": None}
