"""Query a provider for the files of a recording, where its event was lost or came too early."""

from attrs import frozen

from meetcore.domain.notes.recordings import Recording
from meetcore.ports.recording_files import FilesUnavailable, RecordingFiles
from meetcore.ports.store import Store
from meetcore.usecases.collect_recording_files import CollectRecordingFiles
from meetcore.usecases.runtime import Runtime


def require_own(files: RecordingFiles, provider: str) -> None:
    """Refuse recordings of another provider: their ids are unknown at the current one.

    Raises:
        FilesUnavailable: the meeting was another provider's than the one that is set.
    """
    if provider != files.provider:
        raise FilesUnavailable(f"a recording of {provider}, and the provider is {files.provider}")


@frozen
class SyncRecordingFiles:
    """Gathers what the provider has now."""

    store: Store
    files: RecordingFiles
    record: CollectRecordingFiles
    runtime: Runtime

    async def of_meeting(self, provider: str, provider_meeting_id: str) -> bool:
        """Whether the provider has files of a meeting; what it has is gathered.

        Raises:
            FilesUnavailable: the provider did not answer, or the meeting belongs to another provider.
        """
        require_own(self.files, provider)
        found = await self.files.find(provider_meeting_id)
        if found:
            await self.record(provider, provider_meeting_id, found, self.runtime.now(), is_query_result=True)
        return bool(found)

    async def __call__(self, recording: Recording) -> Recording:
        """A recording with whatever the provider has of it now: a transcript that came late, fresh addresses.

        Raises:
            FilesUnavailable: the provider gave no usable answer.
        """
        await self.of_meeting(recording.provider, recording.provider_meeting_id)
        async with self.store.at_once() as tx:
            return await tx.recordings.load_by_id(recording.account_id, recording.id) or recording
