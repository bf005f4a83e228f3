"""The scopes that the Zoom adapter needs: documented, and those of the stand-in's calls."""

from pathlib import Path

from meetcore.adapters.zoom.account import SCOPES, UserSettings, missing_scopes, setting_faults
from meetcore.testing import zoom_account

OPERATING = Path(__file__).parents[3] / "docs" / "operating.md"


def test_every_scope_is_documented_with_those_of_older_applications() -> None:
    text = OPERATING.read_text("utf-8")
    for scope in {*SCOPES, *SCOPES.values()}:
        assert f"`{scope}`" in text, scope


def test_each_call_at_the_stand_in_needs_a_scope_of_ours() -> None:
    assert set(zoom_account.SCOPES.values()) - {"user:read:user:admin"} == set(SCOPES)


def test_a_scope_of_an_older_application_stands_for_several() -> None:
    assert missing_scopes(SCOPES) == []
    assert missing_scopes(set(SCOPES.values())) == []
    assert missing_scopes({"recording:read:admin"}) == [
        scope for scope in SCOPES if scope != "cloud_recording:read:list_recording_files:admin"
    ]


def test_what_zoom_does_not_tell_is_no_fault() -> None:
    assert (
        setting_faults([UserSettings(None, None, None, None), UserSettings(True, True, True, 90)], 90) == []
    )
    assert len(setting_faults([UserSettings(False, False, False, 89)], 90)) == 4
