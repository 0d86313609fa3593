"""The sessions of the MCP package: what the first request under `/mcp` loads."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from vmemo_server.mcp.caller import ToolCaller
from vmemo_server.mcp.server import make_server


def new_sessions(
    caller: Callable[[object], ToolCaller], hosts: Collection[str], origins: Collection[str], *, body_bytes: int
) -> StreamableHTTPSessionManager:
    """Return a manager that answers each request by itself, with the tools of a caller."""
    return StreamableHTTPSessionManager(
        make_server(caller),
        json_response=True,
        stateless=True,
        security_settings=_security(hosts, origins),
        max_request_body_size=body_bytes,
    )


def _security(hosts: Collection[str], origins: Collection[str]) -> TransportSecuritySettings:
    """Return the allowed hosts and origins; a server that allows every host requires keys."""
    if "*" in hosts:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    own = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=_any_port(hosts), allowed_origins=[*_any_port(own), *origins])


def _any_port(names: Collection[str]) -> list[str]:
    return [each for name in names for each in (name, f"{name}:*")]
