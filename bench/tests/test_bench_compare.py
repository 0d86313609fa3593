"""`vmemo benchmark compare`: the systems beside vmemo, and products in processes of their own."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import httpx2
import pytest
from small_data import measure

from vmemo.errors import VmemoError
from vmemo_bench.compare import product
from vmemo_bench.compare.endpoint import serve_embeddings
from vmemo_bench.compare.systems import HybridSearch, KeywordSearch, TurnSearch, VectorSearch
from vmemo_conformance.embedders import HashEmbedder

TURNS = {
    "1": "Ada: I adopted a dog called Rex.",
    "2": "Bob: The weather is dull today.",
    "3": "Ada: My sister moved to Porto.",
}
FAKE_PRODUCT = """
from line_server import serve
stored = {}
def search(question, limit):
    if question == "fail":
        raise ValueError("no such thing")
    print("noise of the product")
    return [id for id, text in stored.items() if question in text][:limit]
serve(stored.update, search)
"""


@pytest.fixture
def fake_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of adapters with that of a product called fake."""
    folder = tmp_path / "adapters"
    folder.mkdir()
    shutil.copy(product.ADAPTERS / "line_server.py", folder)
    (folder / "fake_adapter.py").write_text(FAKE_PRODUCT)
    monkeypatch.setattr(product, "ADAPTERS", folder)
    return tmp_path


@pytest.mark.parametrize(
    "system",
    [
        VectorSearch(HashEmbedder()),
        KeywordSearch(),
        HybridSearch(VectorSearch(HashEmbedder()), KeywordSearch()),
    ],
    ids=["vector", "keyword", "hybrid"],
)
def test_plain_search_ranks_the_turn_that_shares_words_first(system: TurnSearch) -> None:
    async def search() -> str:
        await system.add(TURNS)
        return (await system.search("Who adopted a dog?", 3))[0]

    assert asyncio.run(search()) == "1"


def test_a_product_answers_from_a_process_of_its_own(fake_product: Path) -> None:
    async def search() -> None:
        async with product.start_product("fake", Path(sys.executable), fake_product, "http://unused") as fake:
            await fake.add(TURNS)
            assert await fake.search("Ada", 5) == ["1", "3"]
            with pytest.raises(VmemoError, match="fake failed: ValueError: no such thing"):
                await fake.search("fail", 5)
            assert await fake.search("Porto", 5) == ["3"]

    asyncio.run(search())


def test_a_product_that_is_not_installed_is_named(fake_product: Path) -> None:
    (fake_product / "adapters" / "fake_adapter.py").write_text("import no_such_product")

    async def search() -> None:
        async with product.start_product("fake", Path(sys.executable), fake_product, "http://unused") as fake:
            await fake.search("Ada", 5)

    with pytest.raises(VmemoError, match="fake failed: it ended with status 1"):
        asyncio.run(search())


def test_the_endpoint_embeds_questions_and_documents() -> None:
    async def request() -> None:
        embedder = HashEmbedder()
        async with serve_embeddings(embedder) as url, httpx2.AsyncClient() as client:
            answer = await client.post(f"{url}/embeddings", json={"input": ["a dog"], "model": "query"})
            expected = (await embedder.embed(["a dog"], "query"))[0]
            assert answer.json()["data"][0]["embedding"] == pytest.approx(expected.tolist())

    asyncio.run(request())


def test_the_report_has_a_row_for_every_system(tmp_path: Path) -> None:
    report = measure(tmp_path, benchmark="compare", dataset="ours", limit=1).report
    assert list(report.tables["systems"]) == ["vmemo", "vector", "keyword", "hybrid"]
    for row in report.tables["systems"].values():
        assert 0 <= float(row["recall@10"] or 0) <= 1
        assert float(row["search p50 ms"] or 0) > 0
