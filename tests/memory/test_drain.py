"""A long queue is read to its end without memory growing with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from vmemo_bench.retain.drain import drain, metrics, queued_messages
from vmemo_conformance.embedders import HashEmbedder

QUEUED = 250
FLAT = 20.0
"""Megabytes that caches and the allocator may still take after the first fifth. `vmemo benchmark retain --drain 10000`
measures a queue long enough to show slow growth."""


def test_memory_stays_flat_while_a_queue_is_drained(tmp_path: Path) -> None:
    samples = asyncio.run(drain(queued_messages(QUEUED), HashEmbedder(), tmp_path))
    assert samples[-1].messages == QUEUED
    assert metrics(samples)["rss_growth_mb"] < FLAT
