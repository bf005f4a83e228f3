"""From one description of an operation to a method of a blocking and of an awaited client.

::

    class MeetingOperations(Resource[M]):
        @operation
        def get(self, meeting_id: Id) -> Call[Meeting]: ...

    MeetingOperations[Blocking]             meetings.get(id) -> Meeting
    MeetingOperations[Awaited]              await meetings.get(id) -> Meeting
    MeetingOperations[BlockingResponses]    meetings.get(id) -> Response[Meeting]
    MeetingOperations[AwaitedResponses]     await meetings.get(id) -> Response[Meeting]

A mode is the way in which a description becomes a result. This module contains no operation; a transport runs
the calls.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from attrs import frozen

from meetcore.client.calls import Call, Listing
from meetcore.client.errors import UnexpectedResponse
from meetcore.client.exchange import Procedure
from meetcore.client.records import Page, Response
from meetcore.client.transport import AsyncTransport, SyncTransport

__all__ = [
    "AsyncPages", "AsyncResponsePages", "Awaited", "AwaitedResponses", "Blocking", "BlockingResponses", "M",
    "Pages", "Resource", "ResponsePages", "listing", "operation", "procedure",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")


@frozen
class Pages(Generic[T]):
    """A list: its items or its pages, fetched when they are read. Each `for` begins anew."""

    _transport: SyncTransport
    _listing: Listing[T]

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.data

    def pages(self, cursor: str | None = None) -> Iterator[Page[T]]:
        """Read page after page, from the beginning or from the `next_cursor` of an earlier page."""
        for response in ResponsePages(self._transport, self._listing).pages(cursor):
            yield response.result


@frozen
class AsyncPages(Generic[T]):
    """A list: its items or its pages, fetched when they are read. Each `async for` begins anew."""

    _transport: AsyncTransport
    _listing: Listing[T]

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.data:
                yield item

    async def pages(self, cursor: str | None = None) -> AsyncIterator[Page[T]]:
        """Read page after page, from the beginning or from the `next_cursor` of an earlier page."""
        async for response in AsyncResponsePages(self._transport, self._listing).pages(cursor):
            yield response.result


@frozen
class ResponsePages(Generic[T]):
    """The responses with the pages of a list, fetched when they are read."""

    _transport: SyncTransport
    _listing: Listing[T]

    def __iter__(self) -> Iterator[Response[Page[T]]]:
        return self.pages()

    def pages(self, cursor: str | None = None) -> Iterator[Response[Page[T]]]:
        """Read page after page, from the beginning or from the `next_cursor` of an earlier page."""
        response = self._transport.respond(self._listing.page(cursor))
        while True:
            yield response
            at = response.result.next_cursor
            if at is None:
                return
            response = _checked(at, self._transport.respond(self._listing.page(at)))


@frozen
class AsyncResponsePages(Generic[T]):
    """The responses with the pages of a list, fetched when they are read."""

    _transport: AsyncTransport
    _listing: Listing[T]

    def __aiter__(self) -> AsyncIterator[Response[Page[T]]]:
        return self.pages()

    async def pages(self, cursor: str | None = None) -> AsyncIterator[Response[Page[T]]]:
        """Read page after page, from the beginning or from the `next_cursor` of an earlier page."""
        response = await self._transport.respond(self._listing.page(cursor))
        while True:
            yield response
            at = response.result.next_cursor
            if at is None:
                return
            response = _checked(at, await self._transport.respond(self._listing.page(at)))


def _checked(at: str, response: Response[Page[T]]) -> Response[Page[T]]:
    """Refuse a page whose next cursor is its own: the list would not end."""
    if response.result.next_cursor == at:
        raise UnexpectedResponse("the page's next_cursor is its own cursor")
    return response


@frozen
class Blocking:
    """A call blocks and returns its result."""

    transport: SyncTransport

    def run_call(self, call: Call[T]) -> T:
        """Make the call."""
        return self.transport.respond(call).result

    def open_pages(self, wanted: Listing[T]) -> Pages[T]:
        """Return the list, unread."""
        return Pages(self.transport, wanted)

    def run_procedure(self, wanted: Procedure[T]) -> T:
        """Run the procedure."""
        return self.transport.run_procedure(wanted)


@frozen
class Awaited:
    """A call is awaited and returns its result."""

    transport: AsyncTransport

    async def run_call(self, call: Call[T]) -> T:
        """Make the call."""
        return (await self.transport.respond(call)).result

    def open_pages(self, wanted: Listing[T]) -> AsyncPages[T]:
        """Return the list, unread."""
        return AsyncPages(self.transport, wanted)

    async def run_procedure(self, wanted: Procedure[T]) -> T:
        """Run the procedure."""
        return await self.transport.run_procedure(wanted)


@frozen
class BlockingResponses:
    """A call blocks and returns its response. A procedure has several, and is not offered."""

    transport: SyncTransport

    def run_call(self, call: Call[T]) -> Response[T]:
        """Make the call."""
        return self.transport.respond(call)

    def open_pages(self, wanted: Listing[T]) -> ResponsePages[T]:
        """Return the list, unread."""
        return ResponsePages(self.transport, wanted)


@frozen
class AwaitedResponses:
    """A call is awaited and returns its response. A procedure has several, and is not offered."""

    transport: AsyncTransport

    async def run_call(self, call: Call[T]) -> Response[T]:
        """Make the call."""
        return await self.transport.respond(call)

    def open_pages(self, wanted: Listing[T]) -> AsyncResponsePages[T]:
        """Return the list, unread."""
        return AsyncResponsePages(self.transport, wanted)


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
    """Turns the description of a call into a method that makes the call."""

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
    """Turns the description of a list into a method that returns its pages, each fetched when it is read."""

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
    """Turns the description of a procedure into a method that runs it."""

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
