"""How servers that speak OpenAI's API differ from OpenAI, for the AI stand-in.

Each is imitated as its documentation and the bug reports of its users show it: what it writes around the
JSON, which response formats it knows, and what it says, or does not say, of a prompt that is too long. A
token is four characters.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen

CHARS_A_TOKEN: Final = 4
Said = tuple[int, object]
"""The status and the body of a refusal."""


def _error(status: int, message: str, **more: object) -> Said:
    return status, {"error": {"message": message, **more}}


def _unchanged(content: str) -> object:
    return content


@frozen
class Manner:
    """A server: the formats that it takes, its context, its replies.

    `knows` are the types of `response_format`; another one is answered by `refuses`. Of a prompt that is
    longer than `context_tokens`, `too_long` tells, or the server cuts its beginning. A prompt of more than
    `answers_up_to` tokens leaves no room for the whole reply. `written` makes the content of a reply.
    """

    knows: frozenset[str] = frozenset({"json_schema", "json_object", "text"})
    refuses: Callable[[str], Said] = field(default=lambda form: _error(400, f"Unknown {form}"), repr=False)
    context_tokens: int | None = None
    too_long: Callable[[int, int], Said] | None = field(default=None, repr=False)
    answers_up_to: int | None = None
    written: Callable[[str], object] = field(default=_unchanged, repr=False)


def prompt_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how long a conversation is."""
    return sum(len(str(message.get("content", ""))) for message in messages) // CHARS_A_TOKEN


def cut(messages: Sequence[Mapping[str, Any]], tokens: int) -> list[Any]:
    """Return a conversation of so many tokens: the instructions, and the end of what follows."""
    first, *rest = messages
    room = max(0, tokens * CHARS_A_TOKEN - len(str(first["content"])))
    kept = []
    for message in reversed(rest):
        content = str(message["content"])[-room:] if room else ""
        room -= len(content)
        kept.append({**message, "content": content})
    return [first, *reversed(kept)]


def schema_in(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the schema that stands in the instructions of a conversation."""
    try:
        schema = json.loads(str(messages[0].get("content", "")).rpartition("\n")[2])
    except ValueError:
        return None
    return schema if isinstance(schema, dict) and "properties" in schema else None


def _thinking(content: str) -> str:
    return (
        "<think>\nThe user wants minutes as {summary, decisions}. First {utterance 0}: a greeting. A draft: "
        '{"summary": "Draft", "decisions": [], "action_items": []}. Now the real one.\n</think>\n\n' + content
    )


def _thinking_aloud(content: str) -> str:
    reasoning = "Okay, the meeting is about a budget. I need {summary} and {decisions}.\n</think>\n\n"
    prose = "\n\nI left out small talk {greetings}. Let me know whether {summary} should be shorter!"
    return f"{reasoning}```json\n{content}\n```{prose}"


def _unclosed(content: str) -> str:
    return f"<think>\nI write the JSON {{right now}}:\n{content}"


def _bare(content: str) -> str:
    """Leave out what is null or an empty list, and the topics."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: without(each)
                for key, each in value.items()
                if each not in (None, []) and key != "topics"
            }
        return [without(each) for each in value] if isinstance(value, list) else value

    return json.dumps(without(json.loads(content)), ensure_ascii=False)


def _in_parts(content: str) -> object:
    """Give the content in parts, with numbers as text."""
    text = re.sub(r'"utterance": (\d+)', r'"utterance": "\1"', content)
    middle = len(text) // 2
    return [{"type": "text", "text": text[:middle]}, {"type": "text", "text": text[middle:]}]


def _wrapped(content: str) -> str:
    return json.dumps({"minutes": json.loads(content)}, ensure_ascii=False)


MANNERS: Final[Mapping[str, Manner]] = MappingProxyType(
    {
        "Qwen3 at vLLM": Manner(written=_thinking),
        "DeepSeek-R1 at SGLang": Manner(
            knows=frozenset({"text", "json_object"}),
            refuses=lambda form: _error(400, f"Unrecognized response format type: {form}", code=400),
            written=_thinking_aloud,
        ),
        "a distilled R1 at Ollama": Manner(
            context_tokens=4_096, written=_unclosed
        ),
        "llama.cpp": Manner(
            context_tokens=4_096,
            too_long=lambda tokens, most: _error(
                400, "the request exceeds the available context size, try increasing it", code=400,
                type="exceed_context_size_error", n_prompt_tokens=tokens, n_ctx=most,
            ),
            written=_bare,
        ),
        "vLLM": Manner(
            context_tokens=4_096,
            too_long=lambda tokens, most: (
                400,
                {
                    "object": "error", "type": "BadRequestError", "param": None, "code": 400,
                    "message": f"This model's maximum context length is {most} tokens. However, you "
                    f"requested {tokens} tokens in the messages. Please reduce the length of the messages.",
                },
            ),
            written=_in_parts,
        ),
        "a FastAPI server": Manner(
            knows=frozenset({"text"}),
            refuses=lambda form: (
                422,
                {
                    "detail": [
                        {
                            "type": "literal_error", "loc": ["body", "response_format", "type"],
                            "msg": "Input should be 'text'", "input": form,
                        }
                    ]
                },
            ),
            written=_wrapped,
        ),
        "DeepSeek": Manner(
            knows=frozenset({"text", "json_object"}),
            refuses=lambda form: _error(
                400, "This response_format type is unavailable now", type="invalid_request_error", param=None,
                code="invalid_request_error",
            ),
        ),
        "TGI": Manner(
            context_tokens=4_096,
            too_long=lambda tokens, most: (
                422,
                {
                    "error": f"Input validation error: `inputs` must have less than {most - 1} tokens. "
                    f"Given: {tokens}",
                    "error_type": "validation",
                },
            ),
            answers_up_to=3_000,
        ),
        "LM Studio": Manner(
            knows=frozenset({"text", "json_schema"}),
            refuses=lambda form: (400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}),
            context_tokens=4_096,
            too_long=lambda tokens, most: (
                400,
                {
                    "error": f"Trying to keep the first {tokens} tokens when context the overflows. "
                    f"However, the model is loaded with context length of only {most} tokens, which is "
                    "not enough."
                },
            ),
            answers_up_to=3_500,
        ),
        "a proxy before a small model": Manner(
            context_tokens=6_000, too_long=lambda tokens, most: (413, "<html>Request Entity Too Large</html>")
        ),
    }
)  # fmt: skip
"""Servers by name."""
