"""The rate window as middleware of somebody else's ASGI application."""
