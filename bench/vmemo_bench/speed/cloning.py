"""Many banks alike on PostgreSQL: copies of one bank inside the database, many times as fast as loading each.

Rows keep their numbers, which are told apart by the bank that leads every key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from vmemo_bench.database import Connection, Database
from vmemo_bench.speed.table_sizes import tables_of_banks

_COLUMNS = """
SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attname <> ALL($2::text[])
"""


async def clone(database: Database, bank: str, names: Sequence[str]) -> None:
    """Copy a bank under each of the names, all of them or none."""
    number = await database.number_of(bank)
    async with database.connection() as connection:
        await connection.execute("BEGIN")
        own = await _columns(connection, "banks", "seq", "id")
        made = await connection.fetch(
            f"INSERT INTO banks (id, {own}) SELECT name, {own} FROM banks CROSS JOIN unnest($2::text[]) AS name "
            "WHERE seq = $1 RETURNING seq",
            number,
            names,
        )
        numbers = [cast("int", row["seq"]) for row in made]
        for table in await tables_of_banks(connection):
            rest = await _columns(connection, table, "bank")
            await connection.execute(
                f'INSERT INTO "{table}" (bank, {rest}) SELECT new, {rest} FROM "{table}" '
                "CROSS JOIN unnest($2::bigint[]) AS new WHERE bank = $1 ORDER BY new",
                number,
                numbers,
            )
        await connection.execute("COMMIT")


async def _columns(connection: Connection, table: str, *without: str) -> str:
    return str(await connection.fetchval(_COLUMNS, table, without))
