"""Jitsi Meet as a video provider: a link that works, and no account anywhere.

`rooms` names a meeting's room and writes its address, `provider` is the port. Nothing is asked of the server,
ever: a room is there while somebody is in it, and whoever has its name gets in.
"""

from meetcore.adapters.jitsi.provider import JitsiProvider

__all__ = ["JitsiProvider"]
