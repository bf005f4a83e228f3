"""What a command says of a store that fails: whether something was done, and what to do next."""

import json

import pytest
from psycopg.errors import InsufficientPrivilege

from meetcore.cli.output import ExitCode
from meetcore.cli.runner import guarded
from meetcore.ports.store import CommitLost, ConnectionLost, OutcomeUnknown, StoreUnavailable


def _failed(capsys: pytest.CaptureFixture[str], fault: Exception, *, is_repeatable: bool) -> tuple[str, str]:
    def work() -> None:
        raise fault

    with pytest.raises(SystemExit) as ended:
        guarded(work, as_json=True, is_repeatable=is_repeatable)
    assert ended.value.code == ExitCode.STORE_UNAVAILABLE
    error = json.loads(capsys.readouterr().out)["error"]
    return error["code"], error["message"]


@pytest.mark.parametrize("fault", [OutcomeUnknown("late"), CommitLost("cut")])
@pytest.mark.parametrize("is_repeatable", [True, False])
def test_a_command_whose_outcome_is_unknown_is_not_called_undone(
    capsys: pytest.CaptureFixture[str], fault: StoreUnavailable, is_repeatable: bool
) -> None:
    code, message = _failed(capsys, fault, is_repeatable=is_repeatable)
    assert code == "store_outcome_unknown"
    assert ("--reference" in message) == is_repeatable, "only where the command was given one"
    assert ("look at what is there" in message) != is_repeatable


@pytest.mark.parametrize(("fault", "said"), [
    (ConnectionLost("cut"), "was not kept"), (StoreUnavailable("away"), "MEETCORE_DATABASE_URL"),
])  # fmt: skip
def test_a_store_that_is_away_did_nothing(
    capsys: pytest.CaptureFixture[str], fault: StoreUnavailable, said: str
) -> None:
    code, message = _failed(capsys, fault, is_repeatable=True)
    assert (code, said in message, "--reference" in message) == ("store_away", True, False)


def test_a_role_without_a_right_is_told_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    fault = InsufficientPrivilege("permission denied for table hosts")
    code, message = _failed(capsys, fault, is_repeatable=False)
    assert (code, "meetcore migrate --grant-to ROLE" in message) == ("store_rights_missing", True)
