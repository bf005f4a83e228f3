"""Commands that change or read one record: the use case, the log line of a change, and the output."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from meetcore.cli.operator_log import log_action
from meetcore.cli.output import Record, show
from meetcore.cli.runner import with_application
from meetcore.composition.application import Application

T = TypeVar("T")

UseCase = Callable[[Application], Awaitable[T]]


def show_change(
    action: str,
    use_case: UseCase[T],
    to_record: Callable[[T], Record],
    *,
    before: UseCase[T | None] | None = None,
    as_json: bool,
    is_repeatable: bool = False,
) -> None:
    """Run a change and print its record; log it, unless the record is the one from `before`."""

    async def work(application: Application) -> Record:
        found = None if before is None else await before(application)
        changed = await use_case(application)
        record = to_record(changed)
        if changed != found:
            log_action(action, record)
        return record

    show(with_application(work, as_json=as_json, is_repeatable=is_repeatable), as_json=as_json)


def show_result(use_case: UseCase[T], to_record: Callable[[T], Record], *, as_json: bool) -> None:
    """Run a read and print its record."""

    async def work(application: Application) -> Record:
        return to_record(await use_case(application))

    show(with_application(work, as_json=as_json), as_json=as_json)
