"""The file of an exported account."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from meetcore.cli.accounts import _write
from meetcore.cli.inputs import InputRefused


async def test_an_export_is_for_its_owner_alone_whatever_lies_there(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"names and addresses"

    others = tmp_path / "others"
    others.write_bytes(b"")
    (tmp_path / "account.zip.part").symlink_to(others)
    file = tmp_path / "account.zip"
    assert await _write(file, pieces()) == 19
    assert (stat.S_IMODE(file.lstat().st_mode), others.read_bytes()) == (0o600, b"")


async def test_a_file_that_the_system_refuses_is_named(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b""

    (tmp_path / "account.zip.part").mkdir()
    with pytest.raises(InputRefused, match=r"account\.zip cannot be written: Is a directory"):
        await _write(tmp_path / "account.zip", pieces())
