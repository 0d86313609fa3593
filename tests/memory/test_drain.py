"""A long queue is read to its end without memory growing with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from vmemo.bench.retain.drain import drain, growth, queued
from vmemo.testing import HashEmbedder

QUEUED = 1_500
FLAT = 40.0
"""Megabytes; the whole size of such a queue's facts and vectors, kept once, would be less, so it shows only a leak that
repeats. `vmemo benchmark retain --drain 10000` measures the real thing."""


def test_memory_stays_flat_while_a_queue_is_drained(tmp_path: Path) -> None:
    samples = asyncio.run(drain(queued(QUEUED), HashEmbedder(), tmp_path, lambda: None))
    assert samples[-1].messages == QUEUED
    assert growth(samples) < FLAT
