"""The caller of tools: a principal, the memory it reaches, and the request it came with."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from vmemo import Memory
from vmemo.models.records import Permission
from vmemo_server.auth import AccessControl, Principal
from vmemo_server.errors import http_status
from vmemo_server.state import AuditEntry, ServerState

_log = logging.getLogger("vmemo.mcp")


@dataclass(frozen=True, kw_only=True)
class ToolCaller:
    """The caller of tools and resources; both reach a bank through `open_bank` only."""

    principal: Principal
    memory: Memory
    access: AccessControl
    worker: bool = True
    """A worker processes queued jobs, so a retain need not wait for them."""
    creates_default_bank: bool = False
    """The default bank exists as soon as a tool uses it; a local user need not create it first."""
    request_id: str = ""
    request_state: MutableMapping[str, Any] = field(default_factory=dict[str, Any])
    """State of the HTTP request, read by its log line."""

    @staticmethod
    def local(
        memory: Memory, *, bank: str | None = None, permission: Permission = "admin", worker: bool = False
    ) -> ToolCaller:
        """Return the local user, limited to one bank if `bank` is given."""
        access = AccessControl(state=ServerState(memory.store), keyless=True, on_audit_failure=_log_audit_failure)
        banks = ("*",) if bank is None else (bank,)
        principal = Principal(banks=banks, permission=permission, limits=access.limits)
        return ToolCaller(principal=principal, memory=memory, access=access, worker=worker, creates_default_bank=True)

    async def open_bank(self, bank: str, permission: Permission, *, create: bool = False) -> Memory:
        default = self.creates_default_bank and bank == self.principal.default_bank
        create = create or (default and self.principal.allows("write", bank))
        memory = await self.principal.open_bank(self.memory, bank, permission, create=create)
        self.request_state["bank"] = bank
        return memory

    async def banks(self) -> list[str]:
        """Return the names of the banks that the principal may read, in order."""
        return self.principal.readable(await self.memory.banks())

    async def begin_write(self, tool: str, bank: str) -> AuditEntry:
        """Write an audit entry before a tool runs that may change something."""
        return await self.access.state.begin_write(
            AuditEntry(key=self.principal.key_id, interface="mcp", verb=tool, bank=bank, request=self.request_id)
        )

    async def finish_write(self, entry: AuditEntry, error: Exception | None) -> None:
        """Complete the audit entry of a tool that has ended."""
        await self.access.finish_write(entry, 200 if error is None else http_status(error))


def _log_audit_failure(entry: AuditEntry, error: Exception) -> None:
    _log.warning("The audit entry of %s was not completed: %s", entry.verb, error)
