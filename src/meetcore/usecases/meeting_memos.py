"""Seal the memo that a provider keeps with a meeting, and open it again after a restore."""

import base64
import binascii
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.memos import InvalidMemo, MeetingMemo, decode_memo, encode_memo, memo_of
from meetcore.ports.cipher import CipherRefused, KeyedCipher
from meetcore.ports.idempotency import Claim


@frozen
class UnopenedMemo:
    """A memo that does not open.

    `key_id` names, in hex, the key that it is under and that is not given; `None` where it was changed, or is
    of a later release.
    """

    key_id: str | None = None


@frozen
class MeetingMemos:
    """Memos as texts of letters, digits, `-` and `_`."""

    cipher: KeyedCipher

    def seal(self, meeting: Meeting, claim: Claim | None) -> str:
        """Seal the memo of a meeting that is about to be made."""
        key, fingerprint = (None, None) if claim is None else (claim.key, claim.fingerprint)
        sealed = self.cipher.seal(encode_memo(memo_of(meeting, key, fingerprint)), _context(meeting.id))
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def open(self, meeting_id: UUID, memo: str) -> MeetingMemo | UnopenedMemo | None:
        """Open the memo of a meeting; `None` for an empty text: there is none."""
        if not memo:
            return None
        try:
            sealed = base64.urlsafe_b64decode(memo + "=" * (-len(memo) % 4))
        except binascii.Error:
            return UnopenedMemo()
        key_id = self.cipher.key_id_of(sealed)
        if key_id is not None and key_id not in self.cipher.key_ids:
            return UnopenedMemo(key_id.hex())
        try:
            return decode_memo(self.cipher.open(sealed, _context(meeting_id)))
        except (CipherRefused, InvalidMemo):
            return UnopenedMemo()


def _context(meeting_id: UUID) -> str:
    return f"meetings/{meeting_id}/memo"
