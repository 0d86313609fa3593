"""The variants of an ablation: each changes one thing of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from vmemo.models import Channel
from vmemo.ports import Extractor
from vmemo.settings import Settings
from vmemo_bench.ablation.readers import WithoutContext, WithoutDates, WithoutDays
from vmemo_bench.datasets import Dataset
from vmemo_bench.engines import Engine
from vmemo_bench.runner import Setup

CHANNELS: tuple[Channel, ...] = ("semantic", "keyword", "graph", "temporal", "verbatim")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A name and how its recall is set up."""

    name: str
    setup: Setup


@dataclass(frozen=True, kw_only=True)
class Bank:
    """Variants that are asked of one bank; the first one's setup also fills it."""

    name: str
    variants: tuple[Variant, ...]


def banks(full: Setup, dataset: Dataset) -> tuple[Bank, ...]:
    """One bank for everything that changes recall alone, and one for each step of retain.

    The steps are the local engine's: a recording holds neither dates to write nor turns before.
    """
    whole = Bank(name="full", variants=(Variant(name="full", setup=full), *_recalls(full)))
    return (whole, *(_retains(full, dataset) if full.engine.name == "local" else ()))


def _recalls(full: Setup) -> list[Variant]:
    def changed(name: str, change: Callable[[Settings], Settings]) -> Variant:
        return Variant(name=name, setup=replace(full, settings=change(full.settings)))

    def without(channel: Channel) -> Variant:
        return changed(f"without {channel}", lambda settings: replace(settings, channels=settings.channels - {channel}))

    return [
        *map(without, CHANNELS),
        changed("without analysis", lambda settings: replace(settings, analysis=False)),
        Variant(name="without reranking", setup=replace(full, reranker="none")),
        changed("ranks instead of sums", lambda settings: replace(settings, fusion="rank")),
    ]


def _retains(full: Setup, dataset: Dataset) -> list[Bank]:
    def read_by(reader: Extractor) -> Setup:
        return replace(full, engine=Engine(readers={case.id: reader for case in dataset.cases}))

    setups = {
        "without dates": read_by(WithoutDates()),
        "without day": replace(full, embedder=WithoutDays(full.embedder)),
        "without context": read_by(WithoutContext()),
    }
    return [Bank(name=name, variants=(Variant(name=name, setup=setup),)) for name, setup in setups.items()]
