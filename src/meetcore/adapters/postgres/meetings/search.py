"""Pages of an account's meetings by words of their titles, in PostgreSQL: one statement, whatever the words.

Words that many meetings have are found near the newest ones; those that few have are found by the index of words, all of
them, and sorted. Between the two lies what neither the newest meetings nor few of them have: that is scanned for from the
newest on.
"""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.meetings.rows import MEETING_COLUMNS
from meetcore.adapters.postgres.meetings.shown import HOST_KEY, STANDS

NEWEST_LOOKED_AT = 1_000
READ_WHOLE = 5_000

_HAS = "title_words(m.account_id, m.title) @@ %(words)s::tsquery"
# The same for a scan in the order of the ids, without working out the words of each title.
_HAS_SCANNED = "lower(m.title) ~ ALL (%(patterns)s::text[])"
_IN_TIME = "m.start_at + interval '0' >= %(from)s AND m.start_at + interval '0' < %(to)s"


def title_query(account_id: UUID, words: Sequence[str]) -> str:
    """The words as a `tsquery`; each is letters and digits alone."""
    account = str(account_id)[24:]
    return " & ".join(f"'{account}{word}':*" for word in words)


def title_patterns(words: Sequence[str]) -> list[str]:
    """The words as regular expressions, of which a title matches each."""
    return [f"(^|[^[:alnum:]]){word}" for word in words]


def page_by_title(stands: Sequence[str]) -> str:
    """A page of meetings that stand so, in a range of starts, by words of their titles.

    The offset keeps the planner from reading the whole table and sorting it for the few meetings that it expects.
    """
    is_wanted = f"({' OR '.join(stands)}) AND {_IN_TIME}"
    return f"""
WITH newest AS MATERIALIZED (
    SELECT m.id FROM (
        SELECT * FROM meetings m WHERE m.account_id = %(account_id)s AND m.id < %(before)s
        ORDER BY m.id DESC LIMIT {NEWEST_LOOKED_AT}
    ) m WHERE {_HAS_SCANNED} AND {is_wanted} ORDER BY m.id DESC LIMIT %(limit)s
), found AS MATERIALIZED (
    SELECT m.account_id, m.id, m.status, m.start_at, m.end_at FROM meetings m
    WHERE (SELECT count(*) FROM newest) < %(limit)s AND {_HAS} LIMIT {READ_WHOLE + 1}
), page AS (
    SELECT id FROM newest WHERE (SELECT count(*) FROM newest) >= %(limit)s
    UNION ALL
    (SELECT m.id FROM found m
    WHERE (SELECT count(*) FROM found) <= {READ_WHOLE} AND m.account_id = %(account_id)s AND m.id < %(before)s
        AND {is_wanted}
    ORDER BY m.id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM (
        SELECT * FROM meetings m WHERE m.account_id = %(account_id)s AND m.id < %(before)s ORDER BY m.id DESC OFFSET 0
    ) m WHERE (SELECT count(*) FROM found) > {READ_WHOLE} AND {_HAS_SCANNED} AND {is_wanted}
    ORDER BY m.id DESC LIMIT %(limit)s)
)
SELECT {MEETING_COLUMNS}, {HOST_KEY}
FROM page JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id
ORDER BY m.id DESC
"""


# A page of an account's meetings by words of their titles, the newest first, all of them or those shown in a status.
BY_TITLE = {status: page_by_title(stands) for status, stands in STANDS.items()}
