"""The suite of the places where recordings lie, on every adapter."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from meetcore.adapters.memory.recording_files import MemoryRecordingFiles
from meetcore.domain.recordings import FileKind, RecordingFile
from meetcore.testing.contracts.recording_files import RecordingFilesContract, RecordingPlace
from meetcore.testing.contracts.video_provider import order_for
from tests.contract.zoom import zoom_at_hand

START = datetime(2026, 11, 24, 2, 4, tzinfo=UTC)
END = START + timedelta(minutes=36)
CONTENTS = {"audio": bytes(range(256)) * 9000 + b"end", "transcript": b"WEBVTT\n\n"}


class TestMemory(RecordingFilesContract):
    @pytest.fixture
    def place(self) -> RecordingPlace:
        files = MemoryRecordingFiles()
        for name, content in CONTENTS.items():
            file = RecordingFile(name, FileKind(name), len(content), START, END, f"memory:{name}")
            files.put("meeting-1", file, content)
        return RecordingPlace(files, "meeting-1", CONTENTS, ("meeting-2",))


class TestZoom(RecordingFilesContract):
    @pytest.fixture
    async def place(self) -> AsyncIterator[RecordingPlace]:
        async with zoom_at_hand() as zoom:
            orders = [order_for(zoom.provider) for _ in range(2)]
            made, other = [(await zoom.provider.create(order)).provider_meeting_id for order in orders]
            meeting = zoom.stand_in.account.meeting(made)
            zoom.stand_in.record(meeting, "audio", "M4A", CONTENTS["audio"], START, END)
            zoom.stand_in.record(meeting, "transcript", "TRANSCRIPT", CONTENTS["transcript"], START, END)
            yield RecordingPlace(zoom.provider.files, made, CONTENTS, (other, "80000000001", "sandbox-1"))


class TestZoomWithoutRanges(TestZoom):
    """Its stores of files may send the whole where a part is wanted."""

    has_ranges = False

    @pytest.fixture
    async def place(self) -> AsyncIterator[RecordingPlace]:
        async with zoom_at_hand() as zoom:
            zoom.stand_in.terms.has_ranges = False
            made = (await zoom.provider.create(order_for(zoom.provider))).provider_meeting_id
            meeting = zoom.stand_in.account.meeting(made)
            zoom.stand_in.record(meeting, "audio", "M4A", CONTENTS["audio"], START, END)
            zoom.stand_in.record(meeting, "transcript", "TRANSCRIPT", CONTENTS["transcript"], START, END)
            yield RecordingPlace(zoom.provider.files, made, CONTENTS, ("80000000001",))
