"""HTTP server: `create_app` makes the ASGI application that `vmemo serve` runs."""

from vmemo.auth import Limits
from vmemo.server.app import ServerOptions, create_app
from vmemo.server.connections import ConnectionLimits
from vmemo.server.dependencies import AppState

__all__ = ["AppState", "ConnectionLimits", "Limits", "ServerOptions", "create_app"]
