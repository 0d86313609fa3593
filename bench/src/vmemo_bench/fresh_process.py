"""A process that only opens a bank and recalls: its peak memory, and the time of its first recall.

`python -P fresh_process.py URL BANK QUERY…` prints them as JSON. It is run by its path, because the package imports
what an application does not need.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path
from time import perf_counter

from vmemo import Memory
from vmemo.errors import VmemoError


async def measure_fresh_process(url: str, bank: str, queries: list[str]) -> dict[str, float]:
    """Recall in a new process with the packaged embedder, and return its memory and the time of the first recall."""
    arguments = ["-P", __file__, url, bank, *queries]
    child = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
    answer, _ = await child.communicate()
    if child.returncode:
        raise VmemoError(f"The process that recalls from the bank {bank!r} ended with {child.returncode}.")
    return json.loads(answer)


async def _recall(url: str, bank: str, queries: list[str]) -> dict[str, float]:
    began = perf_counter()
    async with Memory(url, bank=bank) as memory:
        await memory.recall(queries[0])
        first_ms = (perf_counter() - began) * 1000
        for query in queries[1:]:
            await memory.recall(query)
    return {"process_mb": _peak_mb(), "process_first_recall_ms": first_ms}


def _peak_mb() -> float:
    """Return the peak memory in megabytes. On Linux `getrusage` would include that of the process that started this."""
    status = Path("/proc/self/status")
    if status.exists():
        [peak] = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(peak) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_recall(sys.argv[1], sys.argv[2], sys.argv[3:]))))
