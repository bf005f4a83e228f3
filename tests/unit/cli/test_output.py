"""Records as people read them, in terminals of several widths and in a pipe."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from meetcore.cli.output import Record, progress, show

IDS = ("0190a1b2-0000-7000-8000-00000000000a", "0190a1b2-0000-7000-8000-00000000000b")
RECORDS: Sequence[Record] = [
    {"id": IDS[0], "full_name": "Sari [bold]", "held": 1},
    {"id": IDS[1], "full_name": "", "held": None},
]
TABLE = [
    f"{'id':<36}  full_name    held",
    f"{IDS[0]}  Sari [bold]  1",
    f"{IDS[1]}               -",
]
BLOCKS = [
    f"id         {IDS[0]}", "full_name  Sari [bold]", "held       1", "",
    f"id         {IDS[1]}", "full_name", "held       -",
]  # fmt: skip


@pytest.mark.parametrize(
    ("is_terminal", "columns", "expected"),
    [(False, 20, TABLE), (True, 55, TABLE), (True, 54, BLOCKS), (True, 20, BLOCKS)],
)
def test_a_table_wider_than_the_terminal_is_shown_record_by_record(
    is_terminal: bool,
    columns: int,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    show(RECORDS, as_json=False)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == expected


def test_an_answer_is_yes_or_no_to_people_and_a_boolean_to_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for as_json in (False, True):
        show({"is_new": True, "is_sound": False}, as_json=as_json)
    assert capsys.readouterr().out == 'is_new    yes\nis_sound  no\n{"is_new": true, "is_sound": false}\n'


def test_the_end_of_progress_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("entries proven") as report:
        for done in (0, 105, 105):
            report(done, 105)
    assert capsys.readouterr().err == "entries proven: 0 of 105\nentries proven: 105 of 105\n"


def test_output_that_nothing_reads_any_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as unread:
        monkeypatch.setattr("sys.stdout", unread)
        for as_json in (True, False):
            show(RECORDS, as_json=as_json)
