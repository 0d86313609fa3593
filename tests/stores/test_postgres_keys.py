"""Keys of the PostgreSQL schema, which allow its tables to be distributed by bank."""

from __future__ import annotations

from databases import rows

_KEYS = """
SELECT tables.relname, keys.relname, bool_or(columns.attname = 'bank')
FROM pg_index JOIN pg_class AS tables ON tables.oid = indrelid JOIN pg_class AS keys ON keys.oid = indexrelid
JOIN pg_attribute AS columns ON columns.attrelid = tables.oid AND columns.attnum = ANY (indkey)
WHERE indisunique AND tables.relnamespace = current_schema()::regnamespace
GROUP BY 1, 2
"""
_FOREIGN = """
SELECT tables.relname, conname, confrelid::regclass::text, bool_or(columns.attname = 'bank')
FROM pg_constraint JOIN pg_class AS tables ON tables.oid = conrelid
JOIN pg_attribute AS columns ON columns.attrelid = tables.oid AND columns.attnum = ANY (conkey)
WHERE contype = 'f' AND tables.relnamespace = current_schema()::regnamespace
GROUP BY 1, 2, 3
"""
LOCAL = {"banks", "jobs", "profiles", "webhooks", "notes", "alembic_version"}
"""Small tables that stay on one server: banks, and what is read across banks."""


def test_every_key_of_a_table_of_banks_contains_the_bank(postgres_url: str) -> None:
    keys = rows(postgres_url, _KEYS)
    without = {(table, key) for table, key, has_bank in keys if not has_bank}
    assert {table for table, _ in without} <= LOCAL, without
    assert {"facts", "messages", "links", "fact_words"} <= {table for table, _, _ in keys}


def test_every_foreign_key_contains_the_bank_and_leads_to_the_banks(postgres_url: str) -> None:
    foreign = rows(postgres_url, _FOREIGN)
    assert foreign
    assert {(target, has_bank) for _, _, target, has_bank in foreign} == {("banks", True)}
