"""The API reference, page by page in Markdown, made of the OpenAPI document alone.

An index by room, and one page for each operation and for each event that webhooks receive.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import frozen

from meetcore.adapters.api.examples import curl_command, json_text

Json = dict[str, Any]

CLIENT_METHODS: Final = {
    "get_me": "me", "list_pricing_tiers": "pricing_tiers",
    "create_meeting": "meetings.create", "list_meetings": "meetings.list", "get_meeting": "meetings.get",
    "cancel_meeting": "meetings.cancel",
    "get_credits": "credits.get", "list_transactions": "credits.transactions",
    "estimate_credits": "credits.estimate_{type}", "list_credit_packages": "credits.packages",
    "start_topup": "credits.start_topup", "list_topups": "credits.topups", "get_topup": "credits.topup",
    "list_recordings": "recordings.list", "get_recording": "recordings.get",
    "get_download_url": "recordings.download_url", "delete_recording": "recordings.delete",
    "create_note": "notes.create", "list_notes": "notes.list", "get_note": "notes.get",
    "register_webhook": "webhooks.create", "list_webhooks": "webhooks.list", "get_webhook": "webhooks.get",
    "update_webhook": "webhooks.update", "remove_webhook": "webhooks.delete",
    "rotate_webhook_secret": "webhooks.rotate_secret", "test_webhook": "webhooks.test",
    "list_deliveries": "webhooks.deliveries", "get_delivery": "webhooks.delivery",
    "resend_delivery": "webhooks.resend", "recover_deliveries": "webhooks.recover",
    "list_events": "events.list", "get_event": "events.get",
}  # fmt: skip
"""The method of the Python client by operation; `{type}` is that field of the body."""

_LONGEST_LINE: Final = 60
_BOUNDS: Final = (
    ("minLength", "maxLength", " characters"),
    ("minimum", "maximum", ""),
    ("minItems", "maxItems", " items"),
)


@frozen
class _Described:
    """An operation or an event of the document; an event has no path."""

    method: str
    path: str
    content: Json

    def parameters(self, place: str) -> list[Json]:
        """Return the parameters in a part of the request."""
        return [one for one in self.content["parameters"] if one["in"] == place]


class Reference:
    """The pages of one OpenAPI document.

    `try_it` is the address of the page that tries an operation, with `{}` for its name, or empty.
    """

    def __init__(self, document: bytes, try_it: str = "") -> None:
        self._document: Json = msgspec.json.decode(document)
        self._server: str = self._document["servers"][0]["url"]
        self._try_it = try_it
        items = [
            *self._document["paths"].items(),
            *(("", item) for item in self._document["webhooks"].values()),
        ]
        self._described = {
            content["operationId"]: _Described(method.upper(), path, content)
            for path, item in items
            for method, content in item.items()
        }

    def index(self) -> str:
        """Write the overview: what holds for all operations, and the operations by room."""
        parts = ["# API reference", self._document["info"]["description"]]
        parts.append(
            f"The operations are under `{self._server}`, described for programs by "
            "[the OpenAPI document](./api/v1/openapi.json)."
        )
        for tag in self._document["tags"]:
            shown = [
                (name, each) for name, each in self._described.items() if tag["name"] in each.content["tags"]
            ]
            rows = [_index_row(name, each) for name, each in shown]
            heads = ("Operation", "Does", "Scope")
            parts += [f"## {tag['name']}", tag["description"], _table(heads, rows)]
        return "\n\n".join(parts)

    def title(self, name: str) -> str:
        """Return the title of a page; raise `KeyError` where there is none of the name."""
        return str(self._described[name].content["summary"])

    def page(self, name: str) -> str:
        """Write the page of an operation or an event."""
        each = self._described[name]
        parts = [f"# {self.title(name)}", *(self._calls(name, each) if each.path else ())]
        parts.insert(2 if each.path else 1, each.content["description"])
        parts += self._parameters(each)
        if body := _json(each.content.get("requestBody", {})):
            parts += ["## Body", *self._record(body)]
        answers = {status: self._resolved(answer) for status, answer in each.content["responses"].items()}
        for status, answer in answers.items():
            if status < "3" and (content := _json(answer)):
                parts += [f"## Answer {status}", f"{answer['description']}.", *self._record(content)]
        parts += ["## Statuses", _table(("Status", "Code", "Means"), map(_answer_row, answers.items()))]
        return "\n\n".join(parts)

    def _calls(self, name: str, each: _Described) -> Iterator[str]:
        """Write the address of an operation and what calls it."""
        yield f"`{each.method} {self._server}{each.path}`"
        body = next(iter(_examples(_json(each.content.get("requestBody", {}))).values()), None)
        ids = {one["name"]: one.get("example", "…") for one in each.parameters("path")}
        text = "" if body is None else json_text(body)
        url, with_key = self._server + each.path.format_map(ids), bool(each.parameters("header"))
        yield _code("sh", curl_command(each.method, url, text, with_idempotency_key=with_key))
        if self._try_it:
            yield f"[Try it]({self._try_it.format(name)}), signed in to the dashboard."
        yield "With [the Python client](../client):"
        call = _client_call(name, list(ids.values()), body or {})
        is_list = any(one["name"] == "cursor" for one in each.parameters("query"))
        yield _code("python", f"for each in {call}:\n    print(each)" if is_list else call)

    def _parameters(self, each: _Described) -> Iterator[str]:
        rows = [
            (
                f"`{one['name']}`",
                one["in"] + (", required" if one.get("required") else ""),
                self._type(one["schema"]),
                one["description"],
            )
            for one in each.content["parameters"]
        ]
        if rows:
            yield "## Parameters"
            yield _table(("Name", "In", "Type", "Means"), rows)

    def _record(self, content: Json) -> Iterator[str]:
        """Describe a body: its fields, and its examples."""
        schema = self._resolved(content["schema"])
        if choice := schema.get("discriminator"):
            for tag, reference in choice["mapping"].items():
                yield f"Where `{choice['propertyName']}` is `{tag}`:"
                yield self._fields({"$ref": reference})
        else:
            yield self._fields(schema)
        for name, example in _examples(content).items():
            yield f"Example `{name}`:" if name else "Example:"
            yield _code("json", json.dumps(example, ensure_ascii=False, indent=2))

    def _fields(self, schema: Json) -> str:
        return _table(("Field", "Type", "Means"), self._rows(self._resolved(schema), ""))

    def _rows(self, schema: Json, prefix: str) -> Iterator[Sequence[str]]:
        for name, field in schema.get("properties", {}).items():
            found = self._resolved(field)
            kind = self._type(found) + ("" if name in schema.get("required", ()) else ", optional")
            yield f"`{prefix}{name}`", kind, self._text(found)
            inner, mark = self._inner(found)
            yield from self._rows(inner, f"{prefix}{name}{mark}.")

    def _inner(self, schema: Json) -> tuple[Json, str]:
        """Return the object inside of a field, through `null` and lists, and the mark of a list."""
        for one in map(self._resolved, schema.get("anyOf", ())):
            if "properties" in one or "items" in one:
                return self._inner(one)
        if "items" in schema:
            return self._inner(self._resolved(schema["items"]))[0], "[]"
        return schema, ""

    def _type(self, schema: Json) -> str:
        """Write the type of a value, with its bounds."""
        schema = self._resolved(schema)
        if "discriminator" in schema:
            return "object, by its `type`"
        if alternatives := [self._resolved(one) for one in schema.get("anyOf", ())]:
            if any("enum" in one for one in alternatives):  # beside any string: further values may come
                alternatives = [one for one in alternatives if one != {"type": "string"}]
            return " or ".join(dict.fromkeys(map(self._type, alternatives)))
        if "enum" in schema:
            return ", ".join(f"`{value}`" for value in schema["enum"])
        kind = str(schema.get("format", schema.get("type", "any")))
        if kind == "array":
            kind = f"list of {self._type(schema['items'])}"
        return ", ".join([kind, *_bounds(schema)])

    def _text(self, schema: Json) -> str:
        own = [schema, *map(self._resolved, schema.get("anyOf", ()))]
        return next((str(one["description"]) for one in own if "description" in one), "")

    def _resolved(self, part: Json) -> Json:
        while "$ref" in part:
            found: Any = self._document
            for name in part["$ref"].removeprefix("#/").split("/"):
                found = found[name]
            part = found
        return part


def _index_row(name: str, each: _Described) -> Sequence[str]:
    text = each.content["summary"]
    if not each.path:
        return f"[`{text}`](docs/api/{name})", each.content["description"].partition(". ")[0], ""
    scopes = [scope for need in each.content["security"] for scope in need["apiKey"]]
    needed = " or ".join(f"`{scope}`" for scope in scopes) or "any key"
    return f"[`{each.method} {each.path}`](docs/api/{name})", text, needed


def _client_call(name: str, ids: Sequence[str], body: Mapping[str, object]) -> str:
    """Write a call of the Python client."""
    method = CLIENT_METHODS[name]
    fields = [(field, value) for field, value in body.items() if f"{{{field}}}" not in method]
    given = [*map(_literal, ids), *(f"{field}={_literal(value)}" for field, value in fields)]
    arguments = ", ".join(given)
    if len(arguments) > _LONGEST_LINE:
        arguments = "".join(f"\n    {each}," for each in given) + "\n"
    return f"client.{method.format_map(body)}({arguments})"


def _literal(value: object) -> str:
    """Write a JSON value as a literal of Python."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _bounds(schema: Json) -> Iterator[str]:
    for low, high, unit in _BOUNDS:
        least, most = schema.get(low), schema.get(high)
        if least is not None and most is not None:
            yield f"{least} to {most}{unit}"
        elif most is not None:
            yield f"at most {most}{unit}"
        elif least is not None:
            yield "not empty" if unit and least == 1 else f"at least {least}{unit}"
    if "default" in schema:
        yield f"default {schema['default']}"


def _answer_row(answer: tuple[str, Json]) -> Sequence[str]:
    status, content = answer
    errors = _examples(_json(content)) if status >= "4" else {}
    codes = ", ".join(f"[`{code}`](../errors/{code})" for code in errors if code)
    return status, codes, content["description"].partition(" (`")[0]


def _json(part: Json) -> Json:
    """Return the content of a request or an answer as JSON; empty without one."""
    found: Json = part.get("content", {}).get("application/json", {})
    return found


def _examples(content: Json) -> Json:
    """Return the examples of a content by name; a single one has the empty name."""
    if "example" in content:
        return {"": content["example"]}
    return {name: each["value"] for name, each in content.get("examples", {}).items()}


def _code(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [[" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
