"""Asking a provider what it has of a recording, where its own word was lost or came too early."""

from attrs import frozen

from meetcore.domain.recordings import Recording
from meetcore.ports.recording_files import FilesAway, RecordingFiles
from meetcore.ports.store import Store
from meetcore.usecases.record_recording import RecordRecording
from meetcore.usecases.world import World

__all__ = ["LookForFiles", "require_own"]


def require_own(files: RecordingFiles, provider: str) -> None:
    """Refuse what was recorded elsewhere: its ids mean nothing where files are now.

    Raises:
        FilesAway: the meeting was another provider's than the one that is set.
    """
    if provider != files.provider:
        raise FilesAway(f"a recording of {provider}, and the provider is {files.provider}")


@frozen
class LookForFiles:
    """Gathers what the provider has now."""

    store: Store
    files: RecordingFiles
    record: RecordRecording
    world: World

    async def of_meeting(self, provider: str, provider_meeting_id: str) -> bool:
        """Whether the provider has files of a meeting; what it has is gathered.

        Raises:
            FilesAway: it could not be told, or the meeting is another provider's than ours now.
            StoreAway: the database does not answer.
        """
        require_own(self.files, provider)
        found = await self.files.find(provider_meeting_id)
        if found:
            await self.record(provider, provider_meeting_id, found, self.world.now(), is_answer=True)
        return bool(found)

    async def __call__(self, recording: Recording) -> Recording:
        """A recording with whatever the provider has of it now: a transcript that came late, fresh addresses.

        Raises:
            FilesAway: it could not be told.
            StoreAway: the database does not answer.
        """
        await self.of_meeting(recording.provider, recording.provider_meeting_id)
        async with self.store.at_once() as tx:
            return await tx.recordings.load_by_id(recording.account_id, recording.id) or recording
