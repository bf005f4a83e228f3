"""From one description of an operation to a method, on a client that blocks and on one that awaits.

::

    class MeetingOperations:
        @operation
        def get(self, meeting_id: Id) -> Call[Meeting]: ...

    class Meetings(MeetingOperations, SyncResource): ...        meetings.get(id) -> Meeting
    class AsyncMeetings(MeetingOperations, AsyncResource): ...  await meetings.get(id) -> Meeting

Owns the turning of a description into a method with the same arguments. Refuses to know any operation and to
speak HTTP: a shell runs calls.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from attrs import frozen

from meetcore.client.calls import Call, Listing
from meetcore.client.errors import UnexpectedAnswer
from meetcore.client.records import Page

__all__ = [
    "AsyncPages",
    "AsyncResource",
    "AsyncRunner",
    "Pages",
    "Runner",
    "SyncResource",
    "listing",
    "operation",
]

P = ParamSpec("P")
T = TypeVar("T")


class Runner(Protocol):
    """Makes a call and blocks until there is a result."""

    def run(self, call: Call[T]) -> T:
        """Make the call."""


class AsyncRunner(Protocol):
    """Makes a call and gives way until there is a result."""

    async def run(self, call: Call[T]) -> T:
        """Make the call."""


class SyncResource:
    """What blocking operations are called on."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner


class AsyncResource:
    """What awaited operations are called on."""

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner


@frozen
class Pages(Generic[T]):
    """A list: its items, or its pages, fetched as they are asked for. Each `for` begins anew."""

    _runner: Runner
    _listing: Listing[T]

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.data

    def pages(self, cursor: str | None = None) -> Iterator[Page[T]]:
        """Page after page, from the beginning or from the `next_cursor` of a page seen before."""
        page = self._runner.run(self._listing.page(cursor))
        while True:
            yield page
            if page.next_cursor is None:
                return
            page = _moved_on(page, self._runner.run(self._listing.page(page.next_cursor)))


@frozen
class AsyncPages(Generic[T]):
    """A list: its items, or its pages, fetched as they are asked for. Each `async for` begins anew."""

    _runner: AsyncRunner
    _listing: Listing[T]

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.data:
                yield item

    async def pages(self, cursor: str | None = None) -> AsyncIterator[Page[T]]:
        """Page after page, from the beginning or from the `next_cursor` of a page seen before."""
        page = await self._runner.run(self._listing.page(cursor))
        while True:
            yield page
            if page.next_cursor is None:
                return
            page = _moved_on(page, await self._runner.run(self._listing.page(page.next_cursor)))


def _moved_on(before: Page[T], page: Page[T]) -> Page[T]:
    """The page, if it leads on: one that leads to itself would be read for ever."""
    if page.next_cursor is not None and page.next_cursor == before.next_cursor:
        raise UnexpectedAnswer("a page of the list names itself as the next one")
    return page


class operation(Generic[P, T]):  # noqa: N801  (a decorator)
    """Makes a description of a call into a method that makes the call."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "operation[P, T]": ...
    @overload
    def __get__(self, owner: SyncResource, kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: AsyncResource, kind: type[Any]) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        if owner is None:
            return self
        bound = self._describe.__get__(owner)

        @wraps(bound)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner._runner.run(bound(*args, **kwargs))

        return method


class listing(Generic[P, T]):  # noqa: N801  (a decorator)
    """Makes a description of a list into a method that gives its pages, each sent for when it is read."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "listing[P, T]": ...
    @overload
    def __get__(self, owner: SyncResource, kind: type[Any]) -> Callable[P, Pages[T]]: ...
    @overload
    def __get__(self, owner: AsyncResource, kind: type[Any]) -> Callable[P, AsyncPages[T]]: ...

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        if owner is None:
            return self
        bound = self._describe.__get__(owner)
        pages = Pages if isinstance(owner, SyncResource) else AsyncPages

        @wraps(bound)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return pages(owner._runner, bound(*args, **kwargs))

        return method
