"""What the next calls meet instead of what they should.

======================  ==============================================================================
fault                   the stand-in
======================  ==============================================================================
``hang``                answers nothing until the client has gone
``late``                answers after `late_s` seconds
``answered``            answers as if nothing were wrong: for `doubles`
``drop``                closes the connection without an answer
``garbage``             answers 200 with what is no JSON
``huge``                answers 200 with what was asked for, and more than a client should read
``cut``                 sends half of what it announces, and closes the connection
``stall``               sends half of what it announces, and nothing more until the client has gone
``page``                answers 200 with a page that asks to sign in
``500``, any status     answers it, without Zoom's words
a name of a refusal     says that, as Zoom does; nothing is done
======================  ==============================================================================

With `is_done` what was asked is done all the same, before the fault: a meeting is made and not
reported. What is late is always done.

A creation that is done makes `doubles` more of the same meeting. What no answer names, the doubles and a
meeting without an answer, exists only `after_s` seconds later, by the stand-in's clock.
"""

from typing import Final

from attrs import define, evolve

from meetcore.testing.wire import Reply, Request
from meetcore.testing.zoom.refusals import REFUSALS

__all__ = ["CALLS", "FAULTS", "Fault", "apply_fault"]

CALLS: Final = (
    "token", "create", "get", "list", "delete", "status", "recordings", "user", "users", "host_key",
    "download", "content", "delete_file",
)  # fmt: skip
FAULTS: Final = ("hang", "late", "answered", "drop", "garbage", "huge", "cut", "stall", "page")
_HUGE_BYTES: Final = 8 * 1024 * 1024


@define
class Fault:
    """A fault that waits for its calls.

    `call` is one of `CALLS` or `any`. With a `marker` it waits for calls whose body or whose meeting's topic
    holds that text. `times` counts down; None is for ever.
    """

    fault: str
    call: str = "any"
    times: int | None = 1
    marker: str = ""
    is_done: bool = False
    late_s: float = 30.0
    doubles: int = 0
    after_s: float = 0.0

    def __attrs_post_init__(self) -> None:
        if self.fault not in (*FAULTS, *REFUSALS) and not self.fault.isdigit():
            raise ValueError(f"no such fault: {self.fault}")
        if self.call not in (*CALLS, "any"):
            raise ValueError(f"no such call: {self.call}")

    @property
    def does_the_work(self) -> bool:
        """Whether what was asked for is done all the same."""
        return self.is_done or self.fault in ("late", "answered", "cut", "stall")


async def apply_fault(fault: Fault, request: Request, reply: Reply) -> Reply | None:
    """What a call meets that should have been answered with `reply`; None drops the connection."""
    match fault.fault:
        case "hang":
            await request.until_disconnected()
            return None
        case "drop":
            return None
        case "garbage":
            return Reply(200, b"<html>not what was asked for", {"Content-Type": "text/html"})
        case "huge":
            return Reply(200, reply.body + b" " * _HUGE_BYTES)
        case "cut":
            return evolve(reply, sent=len(reply.body) // 2)
        case "stall":
            return evolve(reply, sent=len(reply.body) // 2, lingers=request.until_disconnected)
        case "page":
            return Reply(200, b"<html>Sign in</html>", {"Content-Type": "text/html;charset=utf-8"})
        case status if status.isdigit():
            return Reply(int(status), b"upstream", {"Content-Type": "text/plain"})
        case _:
            return reply
