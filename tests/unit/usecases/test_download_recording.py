"""Links to recordings: made for who owns one, honoured for a quarter of an hour while it is there."""

from datetime import timedelta
from uuid import uuid4

import pytest
from attrs import evolve

from meetcore.domain.errors import Gone, NotFound
from meetcore.domain.notes.download_links import is_signed_by, sign_link
from meetcore.domain.notes.recordings import FileKind, RecordingStatus
from meetcore.usecases.download_recording import DownloadRecording, SignedLink
from tests.support.recording_fakes import KEY, NOW, OLD_KEY, FakeRecordings, a_recording


@pytest.fixture
def fake_recordings() -> FakeRecordings:
    return FakeRecordings()


@pytest.fixture
def download(fake_recordings: FakeRecordings) -> DownloadRecording:
    return DownloadRecording(fake_recordings.queries, (KEY, OLD_KEY))


async def test_a_link_leads_to_the_file(fake_recordings: FakeRecordings, download: DownloadRecording):
    recording = fake_recordings.put(a_recording())
    signed = await download.link(recording.account_id, recording.id, NOW)
    found = await download(signed, NOW)
    assert found.file == recording.files[0]
    assert (found.provider, found.parts, found.next_part) == ("memory", 1, None)


async def test_a_link_works_for_fifteen_minutes(fake_recordings: FakeRecordings, download: DownloadRecording):
    recording = fake_recordings.put(a_recording())
    signed = await download.link(recording.account_id, recording.id, NOW)
    assert signed.link.expires == int((NOW + timedelta(minutes=15)).timestamp())
    await download(signed, NOW + timedelta(minutes=14, seconds=59))
    for late in (timedelta(minutes=15), timedelta(days=2)):
        with pytest.raises(Gone, match="link is over"):
            await download(signed, NOW + late)


async def test_every_part_leads_to_the_next_until_the_last(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    kinds = (FileKind.VIDEO, FileKind.AUDIO, FileKind.VIDEO)
    recording = fake_recordings.put(a_recording(kinds, (10, 20, 30)))
    signed: SignedLink | None = await download.link(recording.account_id, recording.id, NOW)
    sizes, ends = [], set()
    while signed is not None:
        found = await download(signed, NOW)
        assert found.parts == 3
        sizes.append(found.file.size_bytes)
        ends.add(found.link.expires)
        signed = found.next_part
    assert sizes == [10, 20, 30]
    assert len(ends) == 1  # no part outlives the first


async def test_a_part_that_is_not_there_is_unknown(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    recording = fake_recordings.put(a_recording())
    signed = await download.link(recording.account_id, recording.id, NOW)
    link = evolve(signed.link, part=2)
    with pytest.raises(NotFound):
        await download(SignedLink(link, sign_link(KEY, link)), NOW)


async def test_a_wrong_signature_is_unknown_whatever_became_of_the_recording(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    for status in RecordingStatus:
        recording = fake_recordings.put(evolve(a_recording(), status=status))
        fake_recordings.put(evolve(recording, status=RecordingStatus.AVAILABLE))
        signed = await download.link(recording.account_id, recording.id, NOW)
        fake_recordings.put(recording)
        for wrong in (
            evolve(signed, signature=signed.signature[::-1]),
            evolve(signed, link=evolve(signed.link, expires=signed.link.expires + 1)),
            evolve(signed, link=evolve(signed.link, account_id=uuid4())),
        ):
            with pytest.raises(NotFound):
                await download(wrong, NOW)


async def test_a_link_of_the_key_before_is_honoured_and_none_is_signed_with_it(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    recording = fake_recordings.put(a_recording())
    old = await DownloadRecording(fake_recordings.queries, (OLD_KEY,)).link(
        recording.account_id, recording.id, NOW
    )
    assert (await download(old, NOW)).file == recording.files[0]
    new = await download.link(recording.account_id, recording.id, NOW)
    assert is_signed_by([KEY], new.link, new.signature)
    with pytest.raises(NotFound):
        await DownloadRecording(fake_recordings.queries, (KEY,))(old, NOW)


async def test_an_account_has_no_link_to_anothers_recording(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    recording = fake_recordings.put(a_recording())
    with pytest.raises(NotFound):
        await download.link(uuid4(), recording.id, NOW)
    with pytest.raises(NotFound):
        await download.link(recording.account_id, uuid4(), NOW)


async def test_a_deleted_recording_is_gone_for_existing_links_too(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    recording = fake_recordings.put(a_recording())
    signed = await download.link(recording.account_id, recording.id, NOW)
    for changes in ({"status": RecordingStatus.EXPIRED}, {"status": RecordingStatus.EXPIRED, "files": ()}):
        fake_recordings.change(recording, **changes)
        with pytest.raises(Gone, match="recording was deleted"):
            await download(signed, NOW)
        with pytest.raises(Gone):
            await download.link(recording.account_id, recording.id, NOW)


async def test_retention_ends_at_its_instant_even_before_the_expiry_sweep(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    recording = fake_recordings.put(evolve(a_recording(), expires_at=NOW + timedelta(minutes=5)))
    signed = await download.link(recording.account_id, recording.id, NOW)
    await download(signed, NOW + timedelta(minutes=5) - timedelta(microseconds=1))
    with pytest.raises(Gone, match="retention"):
        await download(signed, NOW + timedelta(minutes=5))
    with pytest.raises(Gone, match="retention"):
        await download.link(recording.account_id, recording.id, NOW + timedelta(minutes=5))
    with pytest.raises(Gone, match="retention"):  # rather than that the link is over: another would not help
        await download(signed, NOW + timedelta(minutes=20))


async def test_one_that_is_being_measured_is_not_there_yet(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    recording = fake_recordings.put(a_recording())
    signed = await download.link(recording.account_id, recording.id, NOW)
    fake_recordings.change(recording, status=RecordingStatus.MEASURING)
    with pytest.raises(NotFound):
        await download(signed, NOW)
    with pytest.raises(NotFound):
        await download.link(recording.account_id, recording.id, NOW)


async def test_no_key_and_no_signature_is_in_a_repr(
    fake_recordings: FakeRecordings, download: DownloadRecording
):
    recording = fake_recordings.put(a_recording((FileKind.AUDIO, FileKind.AUDIO), (1, 2)))
    signed = await download.link(recording.account_id, recording.id, NOW)
    found = await download(signed, NOW)
    assert found.next_part is not None
    for each in (signed, found, download):
        assert signed.signature not in repr(each)
        assert found.next_part.signature not in repr(each)
        assert repr(KEY)[2:20] not in repr(each)
