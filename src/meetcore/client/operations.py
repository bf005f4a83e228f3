"""The operations on the account, meetings, credits, recordings and notes, each described once for both
clients.

The result of a client's method is what its description stands for: `Call[Meeting]` for a `Meeting`,
`Listing[Meeting]` for pages of meetings.

Every operation that changes something takes an `idempotency_key`: give one if another process, or a later
day, may repeat the same intent; without one the attempts of this call share a new key. An argument that is
not given is not sent, so that a later version of the client sends the same bytes under the same key.
"""

from datetime import date, time
from os import PathLike
from types import NoneType
from typing import TypedDict, Unpack

from meetcore.client import calls, records
from meetcore.client.descriptors import M, Resource, listing, operation, procedure
from meetcore.client.exchange import Procedure
from meetcore.client.procedures import NoteWait, WritesBytes, recording_download

__all__ = [
    "AccountOperations", "CreditOperations", "MeetingFlags", "MeetingOperations", "NoteOperations",
    "RecordingOperations",
]  # fmt: skip


class MeetingFlags(TypedDict, total=False):
    """The flags of a meeting. None is the same as not given."""

    with_recording: bool | None  # record the meeting, which may cost more
    auto_notulen: bool | None  # write notes from the recording; forces recording on
    must_login: bool | None  # only logged-in participants may join
    mic_off: bool | None  # participants join muted
    email_notification: bool | None  # let the provider mail the host


def _checked(flags: MeetingFlags) -> MeetingFlags:
    for name in flags:
        if name not in MeetingFlags.__annotations__:
            raise TypeError(f"a meeting has no flag {name!r}")
    return flags


class AccountOperations(Resource[M]):
    """The caller's account, and the price list."""

    @operation
    def me(self) -> calls.Call[records.Account]:
        """Return the key's account, its scopes and the balance. Any valid key may ask."""
        return calls.read("/me", records.Account)

    @listing
    def pricing_tiers(self, *, page_size: int | None = None) -> calls.Listing[records.PricingTier]:
        """List the tiers on sale."""
        return calls.read_pages("/pricing-tiers", records.PricingTier, page_size)


class MeetingOperations(Resource[M]):
    """Meetings."""

    @operation
    def create(
        self,
        *,
        title: str,
        date: date | str,
        start_time: time | str,
        pricing_tier_id: str,
        description: str | None = None,
        password: str | None = None,
        idempotency_key: str | None = None,
        **flags: Unpack[MeetingFlags],
    ) -> calls.Call[records.Meeting]:
        """Create a meeting and deduct its credits, once for each idempotency key.

        Args:
            title: 1 to 200 characters.
            date: in WIB (UTC+7).
            start_time: in WIB (UTC+7), in whole minutes.
            pricing_tier_id: one of `pricing_tiers`.
            description: at most 1000 characters.
            password: 4 to 10 characters; generated when not given.
            idempotency_key: see the module.
            flags: see `MeetingFlags`.

        Raises:
            InsufficientCredits, CreditCapExceeded: nothing was made or charged.
            ServiceUnavailable: no host is free at that time.
            UpstreamError: the provider refused, or has not responded; the same key gets the result later.
        """
        body = calls.given(
            title=title,
            date=calls.day_text(date),
            start_time=calls.time_text(start_time),
            pricing_tier_id=pricing_tier_id,
            description=description,
            password=password,
            **_checked(flags),
        )
        return calls.change("POST", "/meetings", records.Meeting, idempotency_key, body)

    @operation
    def get(self, meeting_id: calls.Id) -> calls.Call[records.Meeting]:
        """Read a meeting."""
        return calls.read(calls.path_of("meetings", meeting_id), records.Meeting)

    @listing
    def list(
        self,
        *,
        status: str | None = None,
        from_: calls.Moment | None = None,
        to: calls.Moment | None = None,
        page_size: int | None = None,
    ) -> calls.Listing[records.Meeting]:
        """List the meetings in a state such as `MeetingStatus.SCHEDULED`, the newest first.

        They start in [`from_`, `to`); a day begins at 00:00 WIB. `page_size` is 1 to 100.
        """
        return calls.read_pages("/meetings", records.Meeting, page_size, from_=from_, to=to, status=status)

    @operation
    def cancel(
        self, meeting_id: calls.Id, *, idempotency_key: str | None = None
    ) -> calls.Call[records.Cancellation]:
        """Cancel a meeting with a refund, or end a running one without; raise `Conflict` after its end."""
        return calls.change(
            "DELETE", calls.path_of("meetings", meeting_id), records.Cancellation, idempotency_key
        )


class CreditOperations(Resource[M]):
    """Credits."""

    @operation
    def get(self) -> calls.Call[records.Balance]:
        """Return the balance, the reserved part of it, and the key's daily cap."""
        return calls.read("/credits", records.Balance)

    @operation
    def estimate_meeting(
        self, *, pricing_tier_id: str, **flags: Unpack[MeetingFlags]
    ) -> calls.Call[records.Estimate]:
        """Return the price of a meeting, which `meetings.create` charges.

        The arguments are those of `meetings.create`. Flags that the provider lacks are refused here, too.
        """
        return _estimate(calls.given(type="meeting", pricing_tier_id=pricing_tier_id, **_checked(flags)))

    @operation
    def estimate_notulen(self, *, duration: int) -> calls.Call[records.Estimate]:
        """Return the price of the notes of a recording, by its length in minutes."""
        return _estimate({"type": "notulen", "duration": duration})

    @listing
    def packages(self, *, page_size: int | None = None) -> calls.Listing[records.CreditPackage]:
        """List the packages of credits on sale; none where the service sells no credits online."""
        return calls.read_pages("/credit-packages", records.CreditPackage, page_size)

    @operation
    def start_topup(
        self, *, package_id: str | None = None, credits: int | None = None, idempotency_key: str | None = None
    ) -> calls.Call[records.Topup]:
        """Start a payment for credits: a person pays at its `payment_url`. Give one of both.

        Raises:
            NotFound: the package is not on sale.
            Unprocessable: the service sells no credits online, or too many payments are pending.
            UpstreamError: the payment gateway refused, or did not answer.
        """
        body = calls.given(package_id=package_id, credits=credits)
        return calls.change("POST", "/credits/topups", records.Topup, idempotency_key, body)

    @listing
    def topups(self, *, page_size: int | None = None) -> calls.Listing[records.Topup]:
        """List the payments for credits, the newest first."""
        return calls.read_pages("/credits/topups", records.Topup, page_size)

    @operation
    def topup(self, topup_id: calls.Id) -> calls.Call[records.Topup]:
        """Read a payment for credits; it is `paid` once the gateway has confirmed it."""
        return calls.read(calls.path_of("credits", "topups", topup_id), records.Topup)

    @listing
    def transactions(
        self,
        *,
        kind: str | None = None,
        from_: calls.Moment | None = None,
        to: calls.Moment | None = None,
        page_size: int | None = None,
    ) -> calls.Listing[records.Transaction]:
        """List the ledger's entries of a kind such as `TransferKind.TOPUP`, the newest first.

        They were made in [`from_`, `to`); a day begins at 00:00 WIB. `page_size` is 1 to 100.
        """
        return calls.read_pages(
            "/credits/transactions", records.Transaction, page_size, from_=from_, to=to, kind=kind
        )


def _estimate(body: dict[str, object]) -> calls.Call[records.Estimate]:
    # It changes nothing, and needs no key.
    return calls.Call(
        "POST", "/credits/estimate", records.Estimate, body=calls.encode(body), idempotency_key=None
    )


class RecordingOperations(Resource[M]):
    """Recordings."""

    @listing
    def list(
        self, *, meeting_id: calls.Id | None = None, page_size: int | None = None
    ) -> calls.Listing[records.Recording]:
        """List the recordings, the newest first; `meeting_id` picks that of a meeting."""
        return calls.read_pages("/recordings", records.Recording, page_size, meeting_id=meeting_id)

    @operation
    def get(self, recording_id: calls.Id) -> calls.Call[records.Recording]:
        """Read a recording."""
        return calls.read(calls.path_of("recordings", recording_id), records.Recording)

    @operation
    def download_url(self, recording_id: calls.Id) -> calls.Call[records.DownloadUrl]:
        """Make a link that downloads the recording without a key, for 15 minutes; else raise `Gone`."""
        return calls.read(calls.path_of("recordings", recording_id, "download-url"), records.DownloadUrl)

    @procedure
    def download(
        self, recording_id: calls.Id, to: str | PathLike[str] | WritesBytes, *, part: int | None = None
    ) -> Procedure[records.Download]:
        """Download a recording, and resume where a connection breaks off.

        The recording of a meeting that was paused has several parts. All of them are downloaded to a path:
        the first into the file of that name, the second into one whose name ends in `-2`, and so on. A file
        appears when it is complete. An open file takes one part.

        Args:
            to: the path of a file, which is replaced; or a binary file that is open for writing.
            part: only this one, counted from 1.

        Raises:
            Gone: it was deleted, or is past its retention.
            ValueError: there is no such part, or an open file would have to take several.
            OSError: it cannot be written.
        """
        return recording_download(recording_id, to, part)

    @operation
    def delete(
        self, recording_id: calls.Id, *, with_notes: bool | None = None, idempotency_key: str | None = None
    ) -> calls.Call[None]:
        """Delete a recording for good; `with_notes` erases its notes and their events, too."""
        query = {} if with_notes is None else {"with_notes": "true" if with_notes else "false"}
        return calls.change(
            "DELETE", calls.path_of("recordings", recording_id), NoneType, idempotency_key, query=query
        )


class NoteOperations(Resource[M]):
    """Notes."""

    @operation
    def create(
        self, *, recording_id: calls.Id, language: str | None = None, idempotency_key: str | None = None
    ) -> calls.Call[records.Note]:
        """Have notes written, once for each idempotency key. They are charged when they are completed.

        Args:
            language: a `Language`; Indonesian when not given.

        Raises:
            Conflict: the recording has notes in this language; `existing_id` names them.
            Gone: the recording was deleted, or is past its retention.
            Unprocessable: the recording has no sound.
            ServiceUnavailable: more of the recording has come and was not measured in time.
            InsufficientCredits, CreditCapExceeded: nothing is held or charged.
        """
        body = calls.given(recording_id=str(recording_id), language=language)
        return calls.change("POST", "/notes", records.Note, idempotency_key, body)

    @listing
    def list(
        self,
        *,
        meeting_id: calls.Id | None = None,
        recording_id: calls.Id | None = None,
        page_size: int | None = None,
    ) -> calls.Listing[records.Note]:
        """List the notes of a meeting, of a recording or all, with their content, the newest first."""
        return calls.read_pages(
            "/notes", records.Note, page_size, meeting_id=meeting_id, recording_id=recording_id
        )

    @procedure
    def wait(
        self,
        note_id: calls.Id | None = None,
        *,
        meeting_id: calls.Id | None = None,
        timeout_s: float = 1800.0,
    ) -> Procedure[records.Note]:
        """Wait until a note is completed: poll it, first after 1 s and at last every 15 s.

        Args:
            meeting_id: instead of a note, the newest one of this meeting, which may not exist yet.

        Raises:
            NoteFailed: the note failed, and cost nothing.
            WaitTimedOut: it is not completed yet; ask for it later, or use a webhook.
            ValueError: give a note or a meeting, and a time above 0.
        """
        if (note_id is None) == (meeting_id is None):
            raise ValueError("give note_id or meeting_id")
        if not timeout_s > 0:
            raise ValueError("timeout_s is above 0")
        if note_id is not None:
            return NoteWait(calls.read(calls.path_of("notes", note_id), records.Note), timeout_s)
        return NoteWait(calls.read_pages("/notes", records.Note, 1, meeting_id=meeting_id).first, timeout_s)

    @operation
    def get(self, note_id: calls.Id) -> calls.Call[records.Note]:
        """Read a note; raise `Gone` where it was erased with its recording."""
        return calls.read(calls.path_of("notes", note_id), records.Note)

    @operation
    def markdown(self, note_id: calls.Id) -> calls.Call[str]:
        """Read a note as Markdown, for people."""
        return calls.read(calls.path_of("notes", note_id), str, {"format": "markdown"})
