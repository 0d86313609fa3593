"""The door of Hindsight: the calls of its official client, answered by this memory.

What this memory does not have is answered with 501 and a problem that names it, never with a wrong 200. The routes
stand in no OpenAPI description of ours: their shapes are Hindsight's.
"""

from __future__ import annotations

from fastapi import APIRouter

from vmemo.server.hindsight import absent, asking, banks, documents, looking, operations, retaining, running

router = APIRouter(include_in_schema=False)
router.include_router(absent.shadowed)
for part in (running, banks, retaining, asking, looking, documents, operations):
    router.include_router(part.router)
# It takes every path that is left.
router.include_router(absent.router)
