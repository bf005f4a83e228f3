"""The JSON API over HTTP: parses bytes into commands, calls use cases, encodes answers."""
