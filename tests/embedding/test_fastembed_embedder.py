"""Models that fastembed runs, with a stand-in that has the part of its interface that is used (after fastembed 0.9)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from vmemo import Memory
from vmemo.errors import EmbeddingFailed, InvalidInput
from vmemo.models.search import Vector
from vmemo_conformance.embedders import HashEmbedder
from vmemo_integrations.fastembed import FastEmbedEmbedder


class TextEmbedding:
    """The stand-in; `loaded` and `embedded` record its use."""

    loaded: list[tuple[str, dict[str, object]]]
    embedded: list[str]

    def __init__(self, model_name: str, **options: object) -> None:
        if "bge-base" in model_name:
            raise ValueError("Could not load model from any source.")
        self.loaded.append((model_name, options))

    @classmethod
    def list_supported_models(cls) -> list[dict[str, object]]:
        return [
            {"model": "BAAI/bge-small-en-v1.5", "sources": {"hf": "qdrant/bge-small-en-v1.5-onnx-q", "url": None}},
            {"model": "BAAI/bge-base-en-v1.5", "sources": {"hf": None, "url": "https://example.com/x.tar.gz"}},
        ]

    def embed(self, documents: Sequence[str]) -> Iterator[Vector]:
        self.embedded += documents
        for text in documents:
            yield HashEmbedder().vector(text)


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fastembed")
    module.__spec__ = ModuleSpec("fastembed", None)
    TextEmbedding.loaded, TextEmbedding.embedded = [], []
    module.TextEmbedding = TextEmbedding  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "fastembed", module)


def test_a_named_model_is_loaded_at_first_use_and_queries_have_its_prefix() -> None:
    embedder = FastEmbedEmbedder("baai/bge-small-en-v1.5")
    assert (embedder.name, embedder.dimension) == ("fastembed:baai/bge-small-en-v1.5", 0)
    assert TextEmbedding.loaded == []
    vectors = asyncio.run(embedder.embed(["a cat", "a dog"], "document"))
    np.testing.assert_allclose(vectors[1], HashEmbedder().vector("a dog"))
    asyncio.run(embedder.embed(["a cat"], "query"))
    assert TextEmbedding.loaded == [("BAAI/bge-small-en-v1.5", {})]
    assert TextEmbedding.embedded[2] == "Represent this sentence for searching relevant passages: a cat"
    assert embedder.dimension == 64


@pytest.mark.parametrize("name", ["bge-small-en-v1.5", "bge-small-en-v1.5-onnx-q"])
def test_a_folder_is_used_as_it_is_and_nothing_is_downloaded(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with Memory(":memory:", embedder=f"fastembed:{tmp_path / name}") as memory:
        memory.retain_sync("Maya has a cat named Pixel.")
        assert memory.status_sync().embedder == f"fastembed:{name}"
    folder = {"specific_model_path": str(tmp_path / name), "local_files_only": True}
    assert TextEmbedding.loaded == [("BAAI/bge-small-en-v1.5", folder)]


def test_an_unknown_model_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    for model in ("nobody/nothing", str(tmp_path / "my-model")):
        with pytest.raises(InvalidInput, match=r"no model '.*: BAAI/bge-base-en-v1.5, BAAI/bge-small-en-v1.5"):
            asyncio.run(FastEmbedEmbedder(model).embed(["a cat"], "query"))
    with pytest.raises(InvalidInput, match="There is no folder"):
        FastEmbedEmbedder(str(tmp_path / "missing"))


def test_a_model_that_cannot_be_loaded_is_an_error_with_what_to_do() -> None:
    with pytest.raises(EmbeddingFailed, match=r"bge-base.* any source.*give the folder of its files: fastembed:/"):
        asyncio.run(FastEmbedEmbedder("BAAI/bge-base-en-v1.5").embed(["a cat"], "query"))
