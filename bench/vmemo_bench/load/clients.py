"""Clients that retain and recall as fast as they are answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from vmemo.client import Client, Patience
from vmemo.errors import VmemoError, public_name
from vmemo_bench.metrics import Metrics, percentile
from vmemo_bench.options import LoadOptions
from vmemo_bench.speed import texts

PATIENT = Patience(tries=40, first_pause=0.25, longest_pause=2.0)
"""Clients wait for a server that is started anew."""


@dataclass
class Tally:
    """What clients saw: milliseconds of each call by verb, errors by name, and what the server said it has stored."""

    took: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict[str, list[float]](list))
    errors: Counter[str] = field(default_factory=Counter[str])
    stored: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))

    def metrics(self, seconds: float) -> Metrics:
        """Calls per second, and the median and slowest hundredth of each verb in milliseconds."""
        calls = sum(map(len, self.took.values()))
        found = {"calls": float(calls), "calls_per_second": calls / seconds, "errors": float(self.errors.total())}
        found |= {f"errors_{name}": float(count) for name, count in self.errors.items()}
        for verb, took in self.took.items():
            found[f"{verb}_calls"] = float(len(took))
            found |= {f"{verb}_p{share}_ms": percentile(took, share / 100) for share in (50, 99)}
        return found

    def timings(self) -> dict[str, dict[str, float]]:
        """Median and 95th percentile of each verb."""
        return {
            verb: {"p50_ms": percentile(took, 0.5), "p95_ms": percentile(took, 0.95)}
            for verb, took in self.took.items()
        }


class Clients:
    """So many clients of one server; each goes on until the time is over."""

    def __init__(self, load: LoadOptions, url: str) -> None:
        self._load, self._url = load, url
        self._tally = Tally()
        self._until = 0.0

    async def work(self) -> Tally:
        """Let all clients work at a time."""
        self._until = time.monotonic() + self._load.seconds
        async with Client(self._url, timeout=120, patience=PATIENT) as shared:
            await asyncio.gather(*(self._one(shared, number) for number in range(self._load.clients)))
        return self._tally

    async def _one(self, shared: Client, number: int) -> None:
        dice = random.Random(number)
        bank = f"bank-{number % self._load.banks}"
        client = shared.bank(bank)
        for turn in range(1_000_000_000):
            if time.monotonic() >= self._until:
                return
            retains = turn == 0 or dice.random() < self._load.retains
            began = time.monotonic()
            try:
                await (self._retain(client, bank, number, turn) if retains else self._recall(client, dice))
            except VmemoError as error:
                self._tally.errors[public_name(error)] += 1
            else:
                verb = "retain" if retains else "recall"
                self._tally.took[verb].append((time.monotonic() - began) * 1000)

    async def _retain(self, client: Client, bank: str, number: int, turn: int) -> None:
        said = texts.messages(number * 10_000 + turn, number * 10_000 + turn + 1)[0].content
        text = f"{said} This was note {turn} of client {number}."
        await client.retain(text, speaker=f"Client {number}")
        self._tally.stored[bank].add(text)

    async def _recall(self, client: Client, dice: random.Random) -> None:
        await client.recall(texts.queries(500)[dice.randrange(500)], max_tokens=1024)
