"""The rate window as middleware of any ASGI application."""
