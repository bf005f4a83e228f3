"""A use case that a worker repeats."""

from collections.abc import Awaitable, Callable

from attrs import frozen


@frozen
class PeriodicTask:
    """Work that is repeated `every_s` seconds after it ended.

    `work` returns whether something may be due by what it did: then the worker looks at once. One that
    `runs_on_notify` also runs on a notification.
    """

    name: str
    work: Callable[[], Awaitable[object]]
    every_s: float
    runs_on_notify: bool = False
