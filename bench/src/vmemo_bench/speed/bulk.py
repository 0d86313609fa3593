"""Bulk writes: retain with synthetic vectors, and import, compared with a plain COPY of the same rows."""

from __future__ import annotations

import io
from dataclasses import dataclass

from vmemo_bench.embedders import SyntheticEmbedder
from vmemo_bench.postgres import PostgresDatabase, SqlConnection, bank_tables
from vmemo_bench.progress import StepCounter
from vmemo_bench.report import Table
from vmemo_bench.speed.speed_run import SpeedResult, SpeedRun
from vmemo_bench.statistics import Metrics, timed

COPY_TABLE = "vmemo_benchmark_copy"
"""A temporary plain table without keys."""
_FACTS = """
SELECT facts.*, embedding, vectors
FROM facts JOIN fact_vectors USING (bank, seq) LEFT JOIN fact_tokens USING (bank, seq) WHERE bank = $1
"""


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Number of facts, or of rows of all tables, written in some milliseconds."""

    count: int
    ms: float

    @property
    def per_second(self) -> float:
        return self.count / self.ms * 1000


async def measure_bulk(run: SpeedRun, embedder: SyntheticEmbedder) -> SpeedResult:
    """Measure retain and import, and on PostgreSQL a COPY of the facts and of every row."""
    async with run.store.banks(("bulk", "bulk imported")) as (one, two):
        retain_ms = await run.fill(embedder, one, 0, run.bulk)
        import_ms = await run.copy_bank(embedder, one, two)
        async with run.memory(embedder, one) as memory:
            facts = (await memory.status()).facts
        written = {"retain": Throughput(count=facts, ms=retain_ms), "import": Throughput(count=facts, ms=import_ms)}
        if (database := run.store.database) is None:
            return _result(written, written, {})
        steps = StepCounter(run.sink, "COPY", 1)
        copied_facts, copied_rows = await _copy_bank(database, one.bank)
        steps.advance()
    rows = {name: Throughput(count=copied_rows.count, ms=each.ms) for name, each in written.items()}
    per_fact = {"bulk_rows_per_fact": copied_rows.count / facts}
    return _result(written | {"COPY": copied_facts}, rows | {"COPY": copied_rows}, per_fact)


def _result(facts: dict[str, Throughput], rows: dict[str, Throughput], more: Metrics) -> SpeedResult:
    """Return facts and rows per second, and their ratios to COPY."""
    metrics = {f"bulk_{name.lower()}_facts_per_second": each.per_second for name, each in facts.items()} | more
    table: dict[str, dict[str, float]] = {name: {"facts/s": each.per_second} for name, each in facts.items()}
    if "COPY" in facts:
        for name, each in rows.items():
            metrics[f"bulk_{name.lower()}_rows_per_second"] = table[name]["rows/s"] = each.per_second
            table[name]["of COPY, facts"] = facts[name].per_second / facts["COPY"].per_second
            table[name]["of COPY, rows"] = each.per_second / rows["COPY"].per_second
        for name in ("retain", "import"):
            metrics[f"bulk_{name}_over_copy"] = table[name]["of COPY, facts"]
            metrics[f"bulk_{name}_rows_over_copy"] = table[name]["of COPY, rows"]
    shown: Table = table
    return SpeedResult(metrics=metrics, tables={"bulk": shown})


async def _copy_bank(database: PostgresDatabase, bank: str) -> tuple[Throughput, Throughput]:
    """Copy the facts with their vectors into one plain table, then the bank's rows of every table into plain ones."""
    number = await database.bank_number(bank)
    async with database.connection() as connection:
        facts = await _copy(connection, _FACTS, number)
        parts = [
            await _copy(connection, f'SELECT * FROM "{table}" WHERE bank = $1', number)
            for table in await bank_tables(connection)
        ]
    return facts, Throughput(count=sum(part.count for part in parts), ms=sum(part.ms for part in parts))


async def _copy(connection: SqlConnection, query: str, bank: int) -> Throughput:
    """Read rows in COPY's binary format, and time writing them into a table without indexes."""
    rows = io.BytesIO()
    await connection.copy_from_query(query, bank, output=rows, format="binary")
    rows.seek(0)
    await connection.execute(f"CREATE TABLE {COPY_TABLE} AS {query.replace('$1', '0')} WITH NO DATA")
    try:
        status, ms = await timed(connection.copy_to_table(COPY_TABLE, source=rows, format="binary"))
    finally:
        await connection.execute(f"DROP TABLE {COPY_TABLE}")
    return Throughput(count=int(status.removeprefix("COPY ")), ms=ms)
