"""The REST door: `create_app` makes the ASGI application that `vmemo serve` runs."""

from vmemo.server.app import ServerOptions, create_app
from vmemo.server.dependencies import House
from vmemo.server.limits import Limits

__all__ = ["House", "Limits", "ServerOptions", "create_app"]
