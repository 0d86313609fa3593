"""The store port stays small."""

from __future__ import annotations

from vmemo.ports import Store

LIMIT = 30


def test_the_store_protocol_has_few_methods() -> None:
    methods = [name for name in dir(Store) if not name.startswith("_")]
    assert len(methods) <= LIMIT, sorted(methods)
