"""Benchmarks on all stores: equal scores, many banks, bulk writes, and no bank left in a user's database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from small_data import CountingEmbedder, Interrupted, StopAt, options, run

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.settings import Settings
from vmemo_bench import BenchOptions, Report, SpeedOptions
from vmemo_bench.bench_store import PREFIX, open_store

SMALL = SpeedOptions(sizes=(20,), queries=3, messages=10, base_sentences=8, banks=(1, 3), facts_per_bank=10, bulk=20)


async def banks(url: str) -> list[str]:
    """Return the names of the banks of a database."""
    memory = Memory(url, embedder=CountingEmbedder())
    try:
        return await memory.banks()
    finally:
        await memory.close()


def speed(folder: Path, store: str) -> Report:
    """Run a small speed benchmark."""
    return run(BenchOptions(benchmark="speed", work=folder, embedder=CountingEmbedder(), store=store, speed=SMALL))


def test_scores_on_postgres_equal_those_on_sqlite_and_no_bank_is_left(tmp_path: Path, postgres_url: str) -> None:
    asked = options(tmp_path, CountingEmbedder())
    one = run(asked)
    other = run(replace(asked, store=postgres_url))
    assert other.metrics == one.metrics
    assert (one.config["store"], other.config["store"]) == ("sqlite", "postgres")
    assert {"fsync", "server_version", "shared_buffers", "pgvector"} <= set(other.config)
    assert postgres_url not in other.to_json()
    assert asyncio.run(banks(postgres_url)) == []


def test_scores_on_neo4j_equal_those_on_sqlite_and_no_bank_is_left(tmp_path: Path, neo4j_url: str) -> None:
    asked = options(tmp_path, CountingEmbedder())
    one = run(asked)
    other = run(replace(asked, store=neo4j_url))
    assert other.metrics == one.metrics
    assert (one.config["store"], other.config["store"]) == ("sqlite", "neo4j")
    assert neo4j_url not in other.to_json()
    assert asyncio.run(banks(neo4j_url)) == []


def test_an_interrupted_run_on_postgres_leaves_no_bank_and_resumes(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(Interrupted):
        run(replace(options(tmp_path, CountingEmbedder()), store=postgres_url), StopAt(9))
    assert asyncio.run(banks(postgres_url)) == []
    embedder = CountingEmbedder()
    run(replace(options(tmp_path, embedder), store=postgres_url))
    assert len(embedder.queries) == 3


def test_a_database_with_a_bank_of_the_same_name_is_rejected_and_unchanged(tmp_path: Path, postgres_url: str) -> None:
    async def create_bank() -> None:
        async with Memory(postgres_url, bank=f"{PREFIX}two", embedder=CountingEmbedder()) as memory:
            await memory.retain("Ada has a kite.")

    asyncio.run(create_bank())
    with pytest.raises(InvalidInput, match="already contains a bank 'benchmark two'"):
        run(replace(options(tmp_path, CountingEmbedder()), store=postgres_url))
    assert asyncio.run(banks(postgres_url)) == ["benchmark two"]


def test_the_error_for_an_unknown_store_hides_the_password(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="postgresql:// or neo4j:// URL, not 'mysql'") as caught:
        run(replace(options(tmp_path, CountingEmbedder()), store="mysql://me:secret@host/db"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("benchmark", ["retain", "ours"])
def test_qa_and_retain_run_on_sqlite_only(tmp_path: Path, benchmark: str) -> None:
    asked = replace(options(tmp_path, CountingEmbedder()), store="postgres")
    rejected = replace(asked, benchmark="retain") if benchmark == "retain" else replace(asked, mode="qa")
    with pytest.raises(InvalidInput, match="measured on sqlite"):
        run(rejected)


def test_speed_on_postgres_measures_banks_bulk_writes_and_bytes(tmp_path: Path, postgres_url: str) -> None:
    report = speed(tmp_path, postgres_url)
    assert {"recall_p95_over_embed@20", "import_facts_per_second@20", "banks_p95_growth"} <= set(report.metrics)
    assert report.metrics["facts@20"] == 20
    assert report.tables["many banks"]["3 banks"]["facts"] == 30
    assert set(report.tables["bulk"]) == {"retain", "import", "COPY"}
    assert report.metrics["bulk_rows_per_fact"] > 10
    sizes = report.tables["per fact, 20 facts in one bank"]
    assert sizes["facts"]["count"] == sizes["fact_vectors"]["count"] == 1.0
    assert float(sizes["all"]["bytes"] or 0) == pytest.approx(report.metrics["bytes_per_fact@20"])
    assert asyncio.run(banks(postgres_url)) == []
    assert list(tmp_path.iterdir()) == []


def test_speed_on_neo4j_measures_banks_on_the_server(tmp_path: Path, neo4j_url: str) -> None:
    report = speed(tmp_path, neo4j_url)
    assert {"recall_p95_over_embed@20", "import_facts_per_second@20", "banks_p95_growth"} <= set(report.metrics)
    assert report.metrics["facts@20"] == 20
    # The size of the server's files is not known, and those of prepared banks do not count.
    assert not [name for name in report.metrics if "bytes" in name or "disk" in name or "fill" in name]
    assert asyncio.run(banks(neo4j_url)) == []


def test_speed_on_sqlite_measures_banks_and_bulk_writes_on_request(tmp_path: Path) -> None:
    report = speed(tmp_path, "sqlite")
    assert {"banks_over_embed_p50@1", "banks_over_embed_p95@3", "banks_p95_growth"} <= set(report.metrics)
    assert report.metrics["bulk_import_facts_per_second"] > 0
    assert set(report.tables) == {"many banks", "bulk"}
    assert list(tmp_path.iterdir()) == []


def test_speed_uses_the_banks_that_an_earlier_run_kept(tmp_path: Path) -> None:
    small = replace(SMALL, sizes=(10, 20), banks=(), bulk=0)
    kept = tmp_path / "kept"
    asked = BenchOptions(benchmark="speed", embedder=CountingEmbedder(), speed=small, work=tmp_path, keep_banks=kept)
    first, again = run(asked), run(replace(asked, speed=replace(small, sizes=(20,))))
    assert sorted(path.name for path in kept.iterdir()) == ["speed-10.db", "speed-20.db"]
    assert "fill_facts_per_second@20" in first.metrics
    assert "fill_facts_per_second@20" not in again.metrics
    assert again.metrics["facts@20"] == first.metrics["facts@20"]


def test_a_temporary_server_has_durable_settings(tmp_path: Path) -> None:
    async def settings() -> tuple[object, ...]:
        asked = BenchOptions(benchmark="speed", work=tmp_path, store="postgres")
        async with open_store(asked, CountingEmbedder(), Settings()) as store:
            assert store.database is not None
            assert (await store.database.cpu_seconds() or 1.0) > 0
            return tuple(store.config[name] for name in ("embedded", "fsync", "full_page_writes", "autovacuum"))

    assert asyncio.run(settings()) == (True, "on", "on", "on")


@pytest.mark.parametrize(
    "wrong",
    [SpeedOptions(banks=(0,)), SpeedOptions(bulk=-1), SpeedOptions(facts_per_bank=0)],
    ids=["banks", "bulk", "facts"],
)
def test_invalid_speed_options_are_rejected(tmp_path: Path, wrong: SpeedOptions) -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        run(BenchOptions(benchmark="speed", work=tmp_path, speed=wrong))
