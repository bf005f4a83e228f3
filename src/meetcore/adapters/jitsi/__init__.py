"""Jitsi Meet as a video provider: a link that works, and no account anywhere.

`rooms` names a meeting's room and writes its address, `provider` is the port. The server is never called: a
room exists while it has participants, and its name gives access.
"""

from meetcore.adapters.jitsi.provider import JitsiProvider

__all__ = ["JitsiProvider"]
