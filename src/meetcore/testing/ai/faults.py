"""What the next calls meet instead of what they should.

======================  ==============================================================================
fault                   the stand-in
======================  ==============================================================================
``hang``                answers nothing until the client has gone
``slow``                answers after `slow_s` seconds
``drop``                closes the connection without an answer
``cut``                 answers half of what it should, and closes the connection
``garbage``             answers 200 with what is no JSON
``huge``                answers 200 with what was asked for, and more than a client should read
``redirect``            answers 307 to another place
``rate_limit``          answers 429 with `Retry-After: retry_after`
``quota``               answers 429 as one whose bill is not paid
``500``, any status     answers it, without words
``context_length``      answers 400 as to a prompt that is too long
``not_json``            completes with a content that is no JSON
``out_of_shape``        completes with JSON that is not by the schema
``length``              completes with half of the content, as one that ran out of room
``refusal``             completes with a refusal
``content_filter``      completes with nothing, for its filter's sake
======================  ==============================================================================

The last five are of completions only; to a transcription they are what should have been answered.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from attrs import define

from meetcore.testing.wire import Reply, as_json

__all__ = ["CALLS", "FAULTS", "Fault", "completion", "error", "misanswered"]

CALLS: Final = ("transcriptions", "completions")
_COMPLETED: Final = ("not_json", "out_of_shape", "length", "refusal", "content_filter")
FAULTS: Final = (
    "hang", "slow", "drop", "cut", "garbage", "huge", "redirect", "rate_limit", "quota", "context_length",
    *_COMPLETED,
)  # fmt: skip
_HUGE_BYTES: Final = 8 * 1024 * 1024


@define
class Fault:
    """A fault that waits for its calls.

    `call` is one of `CALLS` or `any`. With a `marker` it waits for calls whose body holds that text. `times`
    counts down; None is for ever. `retry_after` is sent as it is.
    """

    fault: str
    call: str = "any"
    times: int | None = 1
    marker: str = ""
    slow_s: float = 30.0
    retry_after: str = "1"

    def __attrs_post_init__(self) -> None:
        if self.fault not in FAULTS and not self.fault.isdigit():
            raise ValueError(f"no such fault: {self.fault}")
        if self.call not in (*CALLS, "any"):
            raise ValueError(f"no such call: {self.call}")


def error(
    status: int, message: str, code: str | None = None, param: str | None = None, **headers: str
) -> Reply:
    """An error in OpenAI's form."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return as_json(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


def completion(model: object, message: Mapping[str, object], finish_reason: str) -> Reply:
    """A completion in OpenAI's form."""
    assistant = {"role": "assistant", "content": None, "refusal": None, **message}
    choice = {"index": 0, "message": assistant, "finish_reason": finish_reason}
    return as_json(
        {"id": "chatcmpl-stand-in", "object": "chat.completion", "model": model, "choices": [choice]}
    )


def misanswered(fault: Fault, reply: Reply) -> Reply:
    """What a call gets that should have been answered with `reply`."""
    match fault.fault:
        case "cut":
            return Reply(reply.status, reply.body, reply.headers, sent=len(reply.body) // 2)
        case "garbage":
            return Reply(200, b"<html>not what was asked for", {"Content-Type": "text/html"})
        case "huge":
            return Reply(200, reply.body + b" " * _HUGE_BYTES, reply.headers)
        case "redirect":
            return Reply(307, b"", {"Location": "http://127.0.0.1:9/elsewhere"})
        case "rate_limit":
            return error(429, "Rate limit reached.", "rate_limit_exceeded", Retry_After=fault.retry_after)
        case "quota":
            return error(429, "You exceeded your current quota.", "insufficient_quota")
        case "context_length":
            return error(
                400, "This model's maximum context length is less.", "context_length_exceeded", "messages"
            )
        case status if status.isdigit():
            return error(int(status), "As it was planned.")
        case _:
            return _malformed(fault.fault, reply)


def _malformed(fault: str, reply: Reply) -> Reply:
    body: dict[str, Any] = json.loads(reply.body)
    if "choices" not in body:
        return reply
    model, content = body["model"], body["choices"][0]["message"]["content"]
    match fault:
        case "not_json":
            return completion(model, {"content": "Here are your notes!"}, "stop")
        case "out_of_shape":
            return completion(model, {"content": '{"summary": 7, "decisions": "none"}'}, "stop")
        case "length":
            return completion(model, {"content": content[: len(content) // 2]}, "length")
        case "refusal":
            return completion(model, {"refusal": "I'm sorry, I can't help with that."}, "stop")
        case "content_filter":
            return completion(model, {"content": ""}, "content_filter")
        case _:
            return reply
