"""What is shown of meetings: the parts of statements that say how one stands, and its host's key."""

from meetcore.domain.meetings.meetings import MeetingStatus

# The key of a meeting's host, where it is in place and the meeting is the first on the host: what it reserved is
# there, and no reservation begins before.
HOST_KEY = """(
        SELECT h.host_key FROM host_reservations r
        JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
        WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
            SELECT FROM host_reservations e
            WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
    ) AS host_key"""

# `domain.meetings.meetings.shown_status` as conditions, of which one holds. Each names statuses, and bounds the start
# wherever it bounds the end, for the sake of the indexes.
STANDS: dict[MeetingStatus | None, tuple[str, ...]] = {
    None: ("m.status IN ('scheduled', 'cancelling', 'started', 'ended', 'cancelled')",),
    MeetingStatus.SCHEDULED: ("m.status IN ('scheduled', 'cancelling') AND m.start_at > %(now)s",),
    MeetingStatus.STARTED: (
        "m.status = 'started' AND m.end_at > %(now)s",
        "m.status IN ('scheduled', 'cancelling') AND m.start_at <= %(now)s AND m.end_at > %(now)s",
    ),
    MeetingStatus.ENDED: (
        "m.status = 'ended'",
        """m.status IN ('scheduled', 'cancelling', 'started') AND m.start_at <= %(now)s
            AND m.end_at <= %(now)s""",
    ),
    MeetingStatus.CANCELLED: ("m.status = 'cancelled'",),
}
