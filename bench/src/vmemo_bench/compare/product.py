"""Another memory product in a process of its own, because its dependencies may conflict with ours."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from vmemo.errors import VmemoError

ADAPTERS = Path(__file__).parent / "adapters"
MAX_LINE = 64 * 1024**2
ENVIRONMENTS = {
    "mem0": {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "unused"},
    "mempalace": {
        "ANONYMIZED_TELEMETRY": "False",
        "MEMPALACE_EMBEDDING_MODEL": "openai-compat",
        "MEMPALACE_EMBEDDING_API_MODEL": "document",
    },
}
"""Variables that a product reads when it is imported."""


@dataclass(frozen=True)
class Product:
    """A running adapter. Requests and answers are lines of JSON."""

    name: str
    process: Process

    async def add(self, turns: Mapping[str, str]) -> None:
        """Store the turns verbatim: no language model derives anything."""
        await self._ask({"add": turns})

    async def search(self, question: str, limit: int) -> Sequence[str]:
        """Search as the product does by default."""
        return [str(id) for id in await self._ask({"search": question, "limit": limit})]

    async def _ask(self, request: Mapping[str, object]) -> list[object]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        await self.process.stdin.drain()
        line = await self.process.stdout.readline()
        if not line:
            raise VmemoError(f"{self.name} failed: it ended with status {await self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise VmemoError(f"{self.name} failed: {answer['error']}")
        return answer["ids"]


@asynccontextmanager
async def start_product(name: str, python: Path, folder: Path, endpoint: str) -> AsyncGenerator[Product]:
    """Yield a product, started by the interpreter of the environment in which it is installed."""
    process = await asyncio.create_subprocess_exec(
        *(str(python), str(ADAPTERS / f"{name}_adapter.py"), str(folder), endpoint),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=MAX_LINE,
        env={
            **os.environ,
            "ORT_DISABLE_TELEMETRY": "1",
            **ENVIRONMENTS.get(name, {}),
            "MEMPALACE_EMBEDDING_API_URL": endpoint,
            "HOME": str(folder),
            "PYTHONPATH": "",
        },
    )
    try:
        yield Product(name, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
