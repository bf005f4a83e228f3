"""From one description of an operation to a method, on a client that blocks and on one that awaits.

::

    class MeetingOperations(Resource[M]):
        @operation
        def get(self, meeting_id: Id) -> Call[Meeting]: ...

    MeetingOperations[Blocking]             meetings.get(id) -> Meeting
    MeetingOperations[Awaited]              await meetings.get(id) -> Meeting
    MeetingOperations[BlockingResponses]    meetings.get(id) -> Response[Meeting]
    MeetingOperations[AwaitedResponses]     await meetings.get(id) -> Response[Meeting]

A mode says what a description becomes. This module contains no operation and no HTTP: a transport runs calls.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from attrs import frozen

from meetcore.client.calls import Call, Listing
from meetcore.client.errors import UnexpectedResponse
from meetcore.client.procedures import Procedure
from meetcore.client.records import Page
from meetcore.client.response import Response

__all__ = [
    "AsyncPages",
    "AsyncResponsePages",
    "AsyncRunner",
    "Awaited",
    "AwaitedResponses",
    "Blocking",
    "BlockingResponses",
    "M",
    "Pages",
    "Resource",
    "ResponsePages",
    "Runner",
    "listing",
    "operation",
    "procedure",
]

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")


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
        raise UnexpectedResponse("a page of the list names itself as the next one")
    return response


@frozen
class Blocking:
    """A call blocks until there is its result."""

    runner: Runner

    def run_call(self, call: Call[T]) -> T:
        """Make the call."""
        return self.runner.respond(call).result

    def open_pages(self, wanted: Listing[T]) -> Pages[T]:
        """Return the list, of which nothing is read yet."""
        return Pages(self.runner, wanted)

    def run_procedure(self, wanted: Procedure[T]) -> T:
        """Take the steps of the procedure."""
        return self.runner.run_procedure(wanted)


@frozen
class Awaited:
    """A call is awaited for its result."""

    runner: AsyncRunner

    async def run_call(self, call: Call[T]) -> T:
        """Make the call."""
        return (await self.runner.respond(call)).result

    def open_pages(self, wanted: Listing[T]) -> AsyncPages[T]:
        """Return the list, of which nothing is read yet."""
        return AsyncPages(self.runner, wanted)

    async def run_procedure(self, wanted: Procedure[T]) -> T:
        """Take the steps of the procedure."""
        return await self.runner.run_procedure(wanted)


@frozen
class BlockingResponses:
    """A call blocks until there is its response. A procedure has no one response, and is not offered."""

    runner: Runner

    def run_call(self, call: Call[T]) -> Response[T]:
        """Make the call."""
        return self.runner.respond(call)

    def open_pages(self, wanted: Listing[T]) -> ResponsePages[T]:
        """Return the list, of which nothing is read yet."""
        return ResponsePages(self.runner, wanted)


@frozen
class AwaitedResponses:
    """A call is awaited for its response. A procedure has no one response, and is not offered."""

    runner: AsyncRunner

    async def run_call(self, call: Call[T]) -> Response[T]:
        """Make the call."""
        return await self.runner.respond(call)

    def open_pages(self, wanted: Listing[T]) -> AsyncResponsePages[T]:
        """Return the list, of which nothing is read yet."""
        return AsyncResponsePages(self.runner, wanted)


class Resource(Generic[M]):
    """Operations in a mode."""

    def __init__(self, mode: M) -> None:
        self._mode = mode


class _Descriptor(Generic[P]):
    def __init__(self, describe: Callable[Concatenate[Any, P], object]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__

    def _method(self, owner: Resource[Any], perform: Callable[[Any], object]) -> Callable[P, Any]:
        bound = self._describe.__get__(owner)

        @wraps(bound)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return perform(bound(*args, **kwargs))

        return method


class operation(_Descriptor[P], Generic[P, T]):  # noqa: N801  (a decorator)
    """Makes a description of a call into a method that makes the call."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "operation[P, T]": ...
    @overload
    def __get__(self, owner: Resource[Blocking], kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Resource[Awaited], kind: type[Any]) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, owner: Resource[BlockingResponses], kind: type[Any]) -> Callable[P, Response[T]]: ...
    @overload
    def __get__(
        self, owner: Resource[AwaitedResponses], kind: type[Any]
    ) -> Callable[P, Awaitable[Response[T]]]: ...

    def __get__(self, owner: Resource[Any] | None, kind: type[Any]) -> Any:
        return self if owner is None else self._method(owner, owner._mode.run_call)


class listing(_Descriptor[P], Generic[P, T]):  # noqa: N801  (a decorator)
    """Makes a description of a list into a method that gives its pages, each sent for when it is read."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "listing[P, T]": ...
    @overload
    def __get__(self, owner: Resource[Blocking], kind: type[Any]) -> Callable[P, Pages[T]]: ...
    @overload
    def __get__(self, owner: Resource[Awaited], kind: type[Any]) -> Callable[P, AsyncPages[T]]: ...
    @overload
    def __get__(
        self, owner: Resource[BlockingResponses], kind: type[Any]
    ) -> Callable[P, ResponsePages[T]]: ...
    @overload
    def __get__(
        self, owner: Resource[AwaitedResponses], kind: type[Any]
    ) -> Callable[P, AsyncResponsePages[T]]: ...

    def __get__(self, owner: Resource[Any] | None, kind: type[Any]) -> Any:
        return self if owner is None else self._method(owner, owner._mode.open_pages)


class procedure(_Descriptor[P], Generic[P, T]):  # noqa: N801  (a decorator)
    """Makes a description of several steps into a method that takes them."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Procedure[T]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "procedure[P, T]": ...
    @overload
    def __get__(self, owner: Resource[Blocking], kind: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Resource[Awaited], kind: type[Any]) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, owner: Resource[Any] | None, kind: type[Any]) -> Any:
        return self if owner is None else self._method(owner, owner._mode.run_procedure)
