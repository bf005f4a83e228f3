"""From one description of an operation to a method, on a client that blocks and on one that awaits.

::

    class MeetingOperations:
        @operation
        def get(self, meeting_id: Id) -> Call[Meeting]: ...

    class Meetings(MeetingOperations, SyncResource): ...        meetings.get(id) -> Meeting
    class AsyncMeetings(MeetingOperations, AsyncResource): ...  await meetings.get(id) -> Meeting
    class MeetingResponses(MeetingOperations, SyncResponses): ...  meetings.get(id) -> Response[Meeting]

Owns the turning of a description into a method with the same arguments. It contains no operation and no
HTTP: a transport runs calls.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from attrs import frozen

from meetcore.client.calls import Call, Listing
from meetcore.client.errors import UnexpectedAnswer
from meetcore.client.procedures import Procedure
from meetcore.client.records import Page
from meetcore.client.response import Response

__all__ = [
    "AsyncPages",
    "AsyncResource",
    "AsyncResponsePages",
    "AsyncResponses",
    "AsyncRunner",
    "Pages",
    "ResponsePages",
    "Runner",
    "SyncResource",
    "SyncResponses",
    "listing",
    "operation",
    "procedure",
]

P = ParamSpec("P")
T = TypeVar("T")


class Runner(Protocol):
    """Makes a call and blocks until there is a result."""

    def respond(self, call: Call[T]) -> Response[T]:
        """Make the call."""

    def run_procedure(self, wanted: Procedure[T]) -> T:
        """Take the steps of a procedure."""


class AsyncRunner(Protocol):
    """Makes a call and gives way until there is a result."""

    async def respond(self, call: Call[T]) -> Response[T]:
        """Make the call."""

    async def run_procedure(self, wanted: Procedure[T]) -> T:
        """Take the steps of a procedure."""


class _Blocking:
    def __init__(self, runner: Runner) -> None:
        self._runner = runner


class _Awaited:
    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner


class SyncResource(_Blocking):
    """What blocking operations are called on."""


class AsyncResource(_Awaited):
    """What awaited operations are called on."""


class SyncResponses(_Blocking):
    """What blocking operations are called on whose responses are wanted, too."""


class AsyncResponses(_Awaited):
    """What awaited operations are called on whose responses are wanted, too."""


async def _result_of(runner: AsyncRunner, call: Call[T]) -> T:
    return (await runner.respond(call)).result


@frozen
class Pages(Generic[T]):
    """A list: its items, or its pages, fetched when they are needed. Each `for` begins anew."""

    _runner: Runner
    _listing: Listing[T]

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.data

    def pages(self, cursor: str | None = None) -> Iterator[Page[T]]:
        """Page after page, from the beginning or from the `next_cursor` of a page seen before."""
        for response in ResponsePages(self._runner, self._listing).pages(cursor):
            yield response.result


@frozen
class AsyncPages(Generic[T]):
    """A list: its items, or its pages, fetched when they are needed. Each `async for` begins anew."""

    _runner: AsyncRunner
    _listing: Listing[T]

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.data:
                yield item

    async def pages(self, cursor: str | None = None) -> AsyncIterator[Page[T]]:
        """Page after page, from the beginning or from the `next_cursor` of a page seen before."""
        async for response in AsyncResponsePages(self._runner, self._listing).pages(cursor):
            yield response.result


@frozen
class ResponsePages(Generic[T]):
    """The responses that hold the pages of a list, fetched when they are needed."""

    _runner: Runner
    _listing: Listing[T]

    def __iter__(self) -> Iterator[Response[Page[T]]]:
        return self.pages()

    def pages(self, cursor: str | None = None) -> Iterator[Response[Page[T]]]:
        """Page after page, from the beginning or from the `next_cursor` of a page seen before."""
        response = self._runner.respond(self._listing.page(cursor))
        while True:
            yield response
            at = response.result.next_cursor
            if at is None:
                return
            response = _moved_on(at, self._runner.respond(self._listing.page(at)))


@frozen
class AsyncResponsePages(Generic[T]):
    """The responses that hold the pages of a list, fetched when they are needed."""

    _runner: AsyncRunner
    _listing: Listing[T]

    def __aiter__(self) -> AsyncIterator[Response[Page[T]]]:
        return self.pages()

    async def pages(self, cursor: str | None = None) -> AsyncIterator[Response[Page[T]]]:
        """Page after page, from the beginning or from the `next_cursor` of a page seen before."""
        response = await self._runner.respond(self._listing.page(cursor))
        while True:
            yield response
            at = response.result.next_cursor
            if at is None:
                return
            response = _moved_on(at, await self._runner.respond(self._listing.page(at)))


def _moved_on(at: str, response: Response[Page[T]]) -> Response[Page[T]]:
    """The page at a cursor, if it leads on: one that leads to itself would be read for ever."""
    if response.result.next_cursor == at:
        raise UnexpectedAnswer("a page of the list names itself as the next one")
    return response


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
    @overload
    def __get__(self, owner: SyncResponses, kind: type[Any]) -> Callable[P, Response[T]]: ...
    @overload
    def __get__(self, owner: AsyncResponses, kind: type[Any]) -> Callable[P, Awaitable[Response[T]]]: ...

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        if owner is None:
            return self
        bound, runner = self._describe.__get__(owner), owner._runner

        @wraps(bound)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            call = bound(*args, **kwargs)
            match owner:
                case SyncResource():
                    return runner.respond(call).result
                case AsyncResource():
                    return _result_of(runner, call)
                case _:
                    return runner.respond(call)

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
    @overload
    def __get__(self, owner: SyncResponses, kind: type[Any]) -> Callable[P, ResponsePages[T]]: ...
    @overload
    def __get__(self, owner: AsyncResponses, kind: type[Any]) -> Callable[P, AsyncResponsePages[T]]: ...

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        if owner is None:
            return self
        bound = self._describe.__get__(owner)
        [pages] = [pages for resource, pages in _PAGES.items() if isinstance(owner, resource)]

        @wraps(bound)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return pages(owner._runner, bound(*args, **kwargs))

        return method


_PAGES: Mapping[type, Callable[[Any, Listing[Any]], object]] = {
    SyncResource: Pages,
    AsyncResource: AsyncPages,
    SyncResponses: ResponsePages,
    AsyncResponses: AsyncResponsePages,
}


class procedure(Generic[P, T]):  # noqa: N801  (a decorator)
    """Makes a description of several steps into a method that takes them. It has no one response."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Procedure[T]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "procedure[P, T]": ...
    @overload
    def __get__(self, owner: SyncResource, kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: AsyncResource, kind: type[Any]) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, owner: Any, kind: type[Any]) -> Any:
        if owner is None:
            return self
        if isinstance(owner, SyncResponses | AsyncResponses):
            # `hasattr` must be false.
            raise AttributeError("this takes several requests: call it on the client itself")  # noqa: TRY004
        bound = self._describe.__get__(owner)

        @wraps(bound)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner._runner.run_procedure(bound(*args, **kwargs))

        return method
