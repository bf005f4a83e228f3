"""What every transcriber is held against: what comes out lies within the piece, in the order of time.

Its accuracy, and how it fails, is tested with each adapter.
"""

import asyncio

import pytest

from meetcore.domain.notes.transcripts import Transcript
from meetcore.ports.ai import AiRefused
from meetcore.ports.audio_editor import Sound
from meetcore.ports.transcriber import Transcriber
from meetcore.testing.sounds import silence, sound_of

_SLACK_S = 0.05
_LIMIT_BYTES = 25 * 1024 * 1024


def _piece(length_s: float) -> Sound:
    return sound_of(silence(length_s), length_s)


def _check(transcript: Transcript, length_s: float) -> None:
    assert [one.at_s for one in transcript] == sorted(one.at_s for one in transcript)
    for one in transcript:
        assert 0 <= one.at_s <= one.until_s <= length_s + _SLACK_S
        assert one.text.strip()
        assert one.speaker is None or one.speaker.strip()


@pytest.mark.asyncio
class TranscriberContract:
    """The suite for one `Transcriber`. Give it the fixture `transcriber`::

        class TestMyTranscriber(TranscriberContract):
            @pytest.fixture
            def transcriber(self) -> Transcriber:
                return MyTranscriber("https://hears.example")

    The pieces are silence: one that makes text of it passes as long as it has their place in time.
    """

    async def test_it_declares_how_long_a_piece_may_be(self, transcriber: Transcriber) -> None:
        assert transcriber.max_piece_s >= 30
        assert transcriber.max_piece_s * 3_000 <= _LIMIT_BYTES, "a piece of speech is larger than 25 MB"

    @pytest.mark.parametrize("length_s", [0.5, 7.25, 31.0])
    async def test_utterances_lie_within_the_piece(self, transcriber: Transcriber, length_s: float) -> None:
        with _piece(length_s) as sound:
            _check(await transcriber.transcribe(sound), length_s)

    async def test_the_longest_piece_is_transcribed(self, transcriber: Transcriber) -> None:
        with _piece(transcriber.max_piece_s) as sound:
            _check(await transcriber.transcribe(sound), transcriber.max_piece_s)

    async def test_a_piece_stays_open_and_can_be_transcribed_again(self, transcriber: Transcriber) -> None:
        with _piece(11.0) as sound:
            first = await transcriber.transcribe(sound)
            assert not sound.file.closed
            sound.file.seek(0)
            assert await transcriber.transcribe(sound) == first

    async def test_pieces_at_one_time_do_not_mix(self, transcriber: Transcriber) -> None:
        lengths_s = (0.5, 6.0, 12.0)

        async def transcribe(length_s: float) -> Transcript:
            with _piece(length_s) as sound:
                return await transcriber.transcribe(sound)

        alone = [await transcribe(length_s) for length_s in lengths_s]
        assert await asyncio.gather(*map(transcribe, lengths_s)) == alone

    @pytest.mark.parametrize("content", [b"", b"no sound at all", silence(1.0)[:30]])
    async def test_what_is_no_sound_is_refused_for_good(
        self, transcriber: Transcriber, content: bytes
    ) -> None:
        with sound_of(content, 1.0) as sound, pytest.raises(AiRefused):
            await transcriber.transcribe(sound)

    async def test_a_cancelled_call_cancels_no_other(self, transcriber: Transcriber) -> None:
        with _piece(6.0) as one, _piece(6.0) as other:
            given_up = asyncio.create_task(transcriber.transcribe(one))
            kept = asyncio.create_task(transcriber.transcribe(other))
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            _check(await kept, 6.0)
