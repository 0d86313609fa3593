"""The door of Hindsight: the calls of its official client, answered by this memory.

What this memory does not have is answered with 501 and a problem that names it, never with a wrong 200. The routes
stand in no OpenAPI description of ours: their shapes are Hindsight's.
"""

from __future__ import annotations

from fastapi import APIRouter

from vmemo.server.hindsight import banks, documents, inspect, operations, query, retain, system, unsupported

router = APIRouter(include_in_schema=False)
router.include_router(unsupported.shadowed)
for part in (system, banks, retain, query, inspect, documents, operations):
    router.include_router(part.router)
# It takes every path that is left.
router.include_router(unsupported.router)
