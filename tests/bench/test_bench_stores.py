"""Benchmarks on both stores: the same scores, many banks, writing in bulk, and no bank left in a user's database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from toy import Interrupted, StopAt, ToyEmbedder, options

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.settings import Settings
from vmemo_bench import BenchOptions, Report, SpeedOptions, run_benchmark
from vmemo_bench.stores import PREFIX, ground

SMALL = SpeedOptions(sizes=(20,), queries=3, messages=10, base_sentences=8, banks=(1, 3), facts_per_bank=10, bulk=20)


async def banks(url: str) -> list[str]:
    """Names of the banks of a database, but for the one that asks."""
    async with Memory(url, bank="asking", embedder=ToyEmbedder()) as memory:
        return [name for name in await memory.banks() if name != "asking"]


def speed(folder: Path, store: str) -> Report:
    """A small speed run."""
    asked = BenchOptions(benchmark="speed", work=folder, embedder=ToyEmbedder(), store=store, speed=SMALL)
    return asyncio.run(run_benchmark(asked))


def test_scores_on_postgres_are_those_on_sqlite_and_no_bank_is_left(tmp_path: Path, postgres_url: str) -> None:
    asked = options(tmp_path, ToyEmbedder())
    one = asyncio.run(run_benchmark(asked))
    other = asyncio.run(run_benchmark(replace(asked, store=postgres_url)))
    assert other.metrics == one.metrics
    assert (one.config["store"], other.config["store"]) == ("sqlite", "postgres")
    assert {"fsync", "server_version", "shared_buffers", "pgvector"} <= set(other.config)
    assert postgres_url not in other.to_json()
    assert asyncio.run(banks(postgres_url)) == []


def test_a_run_on_postgres_that_is_broken_off_leaves_no_bank_and_goes_on(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(Interrupted):
        asyncio.run(run_benchmark(replace(options(tmp_path, ToyEmbedder()), store=postgres_url), StopAt(9)))
    assert asyncio.run(banks(postgres_url)) == []
    embedder = ToyEmbedder()
    asyncio.run(run_benchmark(replace(options(tmp_path, embedder), store=postgres_url)))
    assert len(embedder.queries) == 3


def test_a_database_that_holds_a_bank_of_that_name_is_refused_and_keeps_it(tmp_path: Path, postgres_url: str) -> None:
    async def keep() -> None:
        async with Memory(postgres_url, bank=f"{PREFIX}two", embedder=ToyEmbedder()) as memory:
            await memory.retain("Ada has a kite.")

    asyncio.run(keep())
    with pytest.raises(InvalidInput, match="holds a bank 'benchmark two' already"):
        asyncio.run(run_benchmark(replace(options(tmp_path, ToyEmbedder()), store=postgres_url)))
    assert asyncio.run(banks(postgres_url)) == ["benchmark two"]


def test_an_unknown_store_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="sqlite, postgres or a postgresql:// URL, not 'mysql'") as caught:
        asyncio.run(run_benchmark(replace(options(tmp_path, ToyEmbedder()), store="mysql://me:secret@host/db")))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("benchmark", ["retain", "ours"])
def test_what_is_measured_on_sqlite_alone_says_so(tmp_path: Path, benchmark: str) -> None:
    asked = replace(options(tmp_path, ToyEmbedder()), store="postgres")
    refused = replace(asked, benchmark="retain") if benchmark == "retain" else replace(asked, mode="qa")
    with pytest.raises(InvalidInput, match="measured on sqlite"):
        asyncio.run(run_benchmark(refused))


def test_speed_on_postgres_tells_of_banks_bulk_and_bytes(tmp_path: Path, postgres_url: str) -> None:
    report = speed(tmp_path, postgres_url)
    assert {"recall_p95_over_embed@20", "import_facts_per_second@20", "banks_p95_growth"} <= set(report.metrics)
    assert report.metrics["facts@20"] == 20
    assert report.tables["many banks"]["3 banks"]["facts"] == 30
    assert set(report.tables["bulk"]) == {"retain", "import", "COPY"}
    assert report.metrics["bulk_rows_per_fact"] > 10
    held = report.tables["per fact, 20 facts in one bank"]
    assert held["facts"]["count"] == held["fact_search"]["count"] == 1.0
    assert float(held["all"]["bytes"] or 0) == pytest.approx(report.metrics["bytes_per_fact@20"])
    assert asyncio.run(banks(postgres_url)) == []
    assert list(tmp_path.iterdir()) == []


def test_speed_asks_many_banks_and_writes_in_bulk_on_sqlite_when_told_to(tmp_path: Path) -> None:
    report = speed(tmp_path, "sqlite")
    assert {"banks_over_embed_p50@1", "banks_over_embed_p95@3", "banks_p95_growth"} <= set(report.metrics)
    assert report.metrics["bulk_import_facts_per_second"] > 0
    assert set(report.tables) == {"many banks", "bulk"}
    assert list(tmp_path.iterdir()) == []


def test_a_server_of_the_run_is_set_as_one_that_must_not_lose_anything(tmp_path: Path) -> None:
    async def told() -> tuple[object, ...]:
        asked = BenchOptions(benchmark="speed", work=tmp_path, store="postgres")
        async with ground(asked, Settings()) as land:
            assert land.database is not None
            assert (await land.database.cpu_seconds() or 1.0) > 0
            return tuple(land.config[name] for name in ("embedded", "fsync", "full_page_writes", "autovacuum"))

    assert asyncio.run(told()) == (True, "on", "on", "on")


@pytest.mark.parametrize(
    "wrong",
    [SpeedOptions(banks=(0,)), SpeedOptions(bulk=-1), SpeedOptions(facts_per_bank=0)],
    ids=["banks", "bulk", "facts"],
)
def test_numbers_that_can_not_be_measured_are_refused(tmp_path: Path, wrong: SpeedOptions) -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        asyncio.run(run_benchmark(BenchOptions(benchmark="speed", work=tmp_path, speed=wrong)))
