"""Writing much at once: retain with vectors that cost nothing, and import, beside a bare COPY of the same rows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from vmemo_bench.clock import timed
from vmemo_bench.database import Connection, Database
from vmemo_bench.embedders import Synthetic
from vmemo_bench.metrics import Metrics
from vmemo_bench.report import Table
from vmemo_bench.speed.found import Found
from vmemo_bench.speed.setup import Bench, carry, fill
from vmemo_bench.speed.table_sizes import tables_of_banks
from vmemo_bench.steps import Steps

COPY = "vmemo_benchmark_copy"
"""A plain table without keys, which is there while something is copied into it."""
_FACTS = """
SELECT facts.*, embedding, length, token_width, token_vectors
FROM facts JOIN fact_search USING (bank, seq) WHERE bank = $1
"""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How many facts, or rows of all tables, were written in some milliseconds."""

    count: int
    ms: float

    @property
    def per_second(self) -> float:
        """How many in a second."""
        return self.count / self.ms * 1000


async def measure_bulk(bench: Bench, embedder: Synthetic) -> Found:
    """Both ways to write, and on PostgreSQL both ways to copy: the facts alone, and every row that was written."""
    async with bench.land.banks(("bulk", "bulk imported")) as (one, two):
        retain_ms = await fill(bench, embedder, one, 0, bench.bulk)
        import_ms = await carry(bench, embedder, one, two)
        async with bench.memory(embedder, one) as memory:
            facts = (await memory.status()).facts
        written = {"retain": Pace(count=facts, ms=retain_ms), "import": Pace(count=facts, ms=import_ms)}
        if (database := bench.land.database) is None:
            return _found(written, written, {})
        steps = Steps(bench.sink, "bare COPY", 1)
        alone, whole = await _copies(database, one.bank)
        steps.advance()
    rows = {name: Pace(count=whole.count, ms=pace.ms) for name, pace in written.items()}
    return _found(written | {"COPY": alone}, rows | {"COPY": whole}, {"bulk_rows_per_fact": whole.count / facts})


def _found(facts: dict[str, Pace], rows: dict[str, Pace], more: Metrics) -> Found:
    """Facts and rows per second, and shares of what COPY does."""
    metrics = {f"bulk_{name.lower()}_facts_per_second": pace.per_second for name, pace in facts.items()} | more
    table: dict[str, dict[str, float]] = {name: {"facts/s": pace.per_second} for name, pace in facts.items()}
    if "COPY" in facts:
        for name, pace in rows.items():
            metrics[f"bulk_{name.lower()}_rows_per_second"] = table[name]["rows/s"] = pace.per_second
            table[name]["of COPY, facts"] = facts[name].per_second / facts["COPY"].per_second
            table[name]["of COPY, rows"] = pace.per_second / rows["COPY"].per_second
        for name in ("retain", "import"):
            metrics[f"bulk_{name}_over_copy"] = table[name]["of COPY, facts"]
            metrics[f"bulk_{name}_rows_over_copy"] = table[name]["of COPY, rows"]
    shown: Table = table
    return Found(metrics=metrics, tables={"bulk": shown})


async def _copies(database: Database, bank: str) -> tuple[Pace, Pace]:
    """The facts with their vectors into one plain table, then every table's rows of the bank into plain ones."""
    number = await database.number_of(bank)
    async with database.connection() as connection:
        alone = await _copy(connection, _FACTS, number)
        parts = [
            await _copy(connection, f'SELECT * FROM "{table}" WHERE bank = $1', number)
            for table in await tables_of_banks(connection)
        ]
    return alone, _together(parts)


def _together(parts: Sequence[Pace]) -> Pace:
    return Pace(count=sum(part.count for part in parts), ms=sum(part.ms for part in parts))


async def _copy(connection: Connection, query: str, bank: int) -> Pace:
    """Read rows in COPY's own form, and write them as they are into a table that has no index."""
    rows = io.BytesIO()
    await connection.copy_from_query(query, bank, output=rows, format="binary")
    rows.seek(0)
    await connection.execute(f"CREATE TABLE {COPY} AS {query.replace('$1', '0')} WITH NO DATA")
    try:
        told, took = await timed(connection.copy_to_table(COPY, source=rows, format="binary"))
    finally:
        await connection.execute(f"DROP TABLE {COPY}")
    return Pace(count=int(told.removeprefix("COPY ")), ms=took)
