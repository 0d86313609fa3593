"""Hindsight compatibility: the calls of its official client, answered by vmemo.

Calls and options that vmemo does not support answer 501 and name what is missing, never a misleading 200. The routes
are left out of the OpenAPI description, for Hindsight defines their schemas.
"""

from __future__ import annotations

from fastapi import APIRouter

from vmemo_hindsight import banks, documents, inspect, operations, query, retain, system, unsupported

router = APIRouter(include_in_schema=False)
router.routes.extend(unsupported.entity_graph.routes)
for part in (system, banks, retain, query, inspect, documents, operations):
    router.routes.extend(part.router.routes)
# It matches every remaining path.
router.routes.extend(unsupported.router.routes)
