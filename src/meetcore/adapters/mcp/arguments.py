"""A tool's arguments, read as HTTP reads path, query, header and body: strictly, all problems at once.

Owns the mapping of arguments. The rules are the API's: `decoding` and `paging` apply them.
"""

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from meetcore.adapters.api.bodies import NoBody
from meetcore.adapters.api.decoding import decode_body
from meetcore.adapters.api.operation import API_ROOT, Operation
from meetcore.adapters.api.paging import Listing, Page, read_options, read_page
from meetcore.adapters.api.request_pipeline import ParsedRequest
from meetcore.adapters.mcp.tools import KEY, chosen_options, costs, path_names
from meetcore.domain.errors import InvalidRequest
from meetcore.domain.requests.idempotency import is_key

Arguments = Mapping[str, Any]
Problems = dict[str, list[str]]


def ids_of(operation: Operation, arguments: Arguments) -> dict[str, str] | None:
    """Return the ids of an operation's path; `None` when one is missing or is no text."""
    found = {name: arguments.get(name) for name in path_names(operation)}
    texts = {name: value for name, value in found.items() if isinstance(value, str) and value}
    return texts if len(texts) == len(found) else None


def read_arguments(operation: Operation, arguments: Arguments) -> ParsedRequest:
    """Read the arguments of a tool call.

    Raises:
        InvalidRequest: names every argument that is missing, unknown, of a wrong type or breaks a rule.
    """
    problems: Problems = {}
    ids = _read_ids(operation, arguments, problems)
    key = _read_key(operation, arguments, problems)
    own = {*ids, KEY} if operation.is_mutating else {*ids}
    remaining = {name: value for name, value in arguments.items() if name not in own}
    parsed = ParsedRequest(API_ROOT + operation.path.format_map(ids), ids, key=key)
    try:
        parsed = _read_remaining(operation, remaining, parsed)
    except InvalidRequest as error:
        problems |= _fields_of(error)
    if problems:
        raise InvalidRequest(problems)
    return parsed


def _read_ids(operation: Operation, arguments: Arguments, problems: Problems) -> dict[str, str]:
    ids = ids_of(operation, arguments)
    if ids is not None:
        return ids
    for name in path_names(operation):
        if name not in arguments:
            problems[name] = ["is required"]
        elif not isinstance(arguments[name], str) or not arguments[name]:
            problems[name] = ["must be a string of at least one character"]
    return dict.fromkeys(path_names(operation), "")


def _read_key(operation: Operation, arguments: Arguments, problems: Problems) -> str | None:
    if not operation.is_mutating:
        return None
    if KEY not in arguments:
        if costs(operation):
            problems[KEY] = ["is required"]
        return None
    key = arguments[KEY]
    if not (isinstance(key, str) and is_key(key)):
        problems[KEY] = ["must be 1 to 255 visible ASCII characters"]
    return str(key)


def _read_remaining(operation: Operation, remaining: dict[str, Any], parsed: ParsedRequest) -> ParsedRequest:
    if operation.listing is not None:
        return evolve(parsed, page=_read_page(operation.listing, remaining, parsed.place))
    if operation.body is not None:
        return evolve(parsed, value=remaining, body=decode_body(remaining, operation.body))
    options = chosen_options(operation)
    chosen = {name: [_as_query(value)] for name, value in remaining.items() if name in options}
    # What takes no body over HTTP takes no further argument.
    decode_body({name: value for name, value in remaining.items() if name not in options}, NoBody)
    return evolve(parsed, options=read_options(chosen, options)) if chosen else parsed


def _as_query(value: object) -> str:
    """Format a value as a query would contain it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_page(listing: Listing, remaining: Arguments, place: str) -> Page:
    problems: Problems = {}
    query: dict[str, list[str]] = {}
    for name, value in remaining.items():
        kind, type_name = (int, "an integer") if name == "limit" else (str, "a string")
        # What the list does not know is left to it, whatever it is; a boolean is no integer.
        if type(value) is kind or name not in ("limit", "cursor", *listing.filters):
            query[name] = [str(value)]
        else:
            problems[name] = [f"must be {type_name}"]
    try:
        page = read_page(query, listing, place)
    except InvalidRequest as error:
        raise InvalidRequest(problems | _fields_of(error)) from None
    if problems:
        raise InvalidRequest(problems)
    return page


def _fields_of(refusal: InvalidRequest) -> Problems:
    fields = refusal.details["fields"]
    assert isinstance(fields, dict)
    return fields
