"""Roomy as a video provider of meetcore: `MEETCORE_PROVIDER=roomy`."""

from roomy.plugin import ROOMY

__all__ = ["ROOMY"]
