"""The embedder that ships with vmemo."""

from __future__ import annotations

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vmemo import Memory
from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.errors import EmbedderMismatch, InvalidInput, ModelCorrupt
from vmemo.models.search import Vectors
from vmemo.ports import Embedder, TextKind
from vmemo_models import DEEP, ENCODER, EmbeddingModel, ModelFileError

SHARED = PackagedEmbedder()
SAME = 0.9999
"""The lowest cosine of a text alone with itself in company, where floats are added in another order."""
TEXTS = [
    "Caroline adopted a grey cat named Oscar.",
    "The train to Lisbon leaves at nine.",
    "",
    "Melanie paints sunsets to relax after work. " * 40,
    "Oscar",
    "The train to Lisbon leaves at nine.",
]


def embed(texts: list[str], kind: TextKind = "document", embedder: Embedder = SHARED) -> Vectors:
    return asyncio.run(embedder.embed(texts, kind))


def copied_model(folder: Path) -> Path:
    target = folder / "model"
    target.mkdir()
    for file in ENCODER.files:
        shutil.copyfile(ENCODER.folder / file, target / file)
    return target


def test_it_is_an_embedder_of_384_dimensions() -> None:
    embedder: Embedder = SHARED
    assert (embedder.name, embedder.dimension) == ("vmemo-encoder-2.1", 384)


def test_no_texts_give_no_vectors() -> None:
    assert embed([]).shape == (0, 384)


def test_vectors_are_float32_of_unit_length() -> None:
    vectors = embed(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_question_is_nearest_to_its_answer() -> None:
    answers = embed(["Caroline adopted a cat.", "The train leaves at nine.", "Bread needs yeast and patience."])
    for row, question in enumerate(["Which pet does Caroline have?", "When is the train?", "How to bake?"]):
        assert int((answers @ embed([question], "query")[0]).argmax()) == row


def test_a_question_is_nearest_to_its_answer_in_another_language() -> None:
    answers = embed(
        ["Caroline hat eine Katze adoptiert.", "Le train part à neuf heures.", "パンにはイーストが必要です。"]
    )
    for row, question in enumerate(["Which pet does Caroline have?", "When is the train?", "How to bake bread?"]):
        assert int((answers @ embed([question], "query")[0]).argmax()) == row


def test_a_text_as_a_query_has_another_vector_than_as_a_document() -> None:
    assert not np.allclose(embed(["Where is Oscar?"], "query"), embed(["Where is Oscar?"]), atol=1e-3)


def test_many_texts_keep_their_order_whatever_their_lengths() -> None:
    texts = [f"Number {n} " + "and so on " * (n * 7 % 60) for n in range(70)]
    together = embed(texts)
    for index in (0, 13, 42, 69):
        cosines = together @ embed([texts[index]])[0]
        assert int(cosines.argmax()) == index
        assert cosines[index] > SAME


@pytest.mark.parametrize("model", [ENCODER, DEEP], ids=lambda model: model.name)
def test_vectors_do_not_depend_on_their_company(model: EmbeddingModel) -> None:
    embedder = PackagedEmbedder(model)
    texts = [*TEXTS, *(f"Number {n} " + "and so on " * n for n in range(12))]
    alone = np.vstack([embed([text], embedder=embedder) for text in texts])
    assert (embed(texts, embedder=embedder) * alone).sum(axis=1).min() > SAME


def test_a_batch_size_below_one_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="batch is 0"):
        PackagedEmbedder(batch=0)


def test_words_beyond_the_token_limit_are_ignored() -> None:
    long = "memory " * 600
    np.testing.assert_array_equal(embed([long]), embed([long + "and something else entirely"]))


def test_markers_in_a_text_do_no_harm() -> None:
    cosine = float(embed(["<pad> <s> Oscar"])[0] @ embed(["pad s Oscar"])[0])
    assert 0.5 < cosine < 1.0


def test_threads_with_event_loops_of_their_own_share_one_embedder() -> None:
    embedder = PackagedEmbedder(batch=1)
    start = threading.Barrier(4)

    def work(number: int) -> Vectors:
        start.wait()
        return embed([TEXTS[number]], "query", embedder)

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(work, range(4)))
    for number, answer in enumerate(answers):
        np.testing.assert_allclose(answer, embed([TEXTS[number]], "query"), atol=1e-6)


def test_concurrent_queries_get_their_own_vectors_from_shared_passes() -> None:
    questions = [f"{text[:60]} Question {n}?" for n, text in enumerate(TEXTS * 4)]

    async def work() -> list[Vectors]:
        return await asyncio.gather(*(SHARED.embed([question], "query") for question in questions))

    alone = np.vstack([embed([question], "query") for question in questions])
    together = np.vstack(asyncio.run(work()))
    assert (alone * together).sum(axis=1).min() > SAME


def test_the_deep_encoder_has_a_vector_space_of_its_own() -> None:
    deep = PackagedEmbedder(DEEP)
    assert (deep.name, deep.dimension) == ("vmemo-encoder-2.1-deep", 384)
    answers = embed(["Caroline adopted a cat.", "The train leaves at nine."], embedder=deep)
    assert int((answers @ embed(["Which pet does Caroline have?"], "query", deep)[0]).argmax()) == 0


def test_a_memory_uses_the_deep_encoder_by_name(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path / 'deep.db'}", embedder="deep") as memory:
        memory.retain_sync("Zoe lives in Oslo.")
        assert "Oslo" in memory.recall_sync("Where does Zoe live?").hits[0].fact.text
    url = f"sqlite:///{tmp_path / 'packaged.db'}"
    with Memory(url) as memory:
        memory.retain_sync("Zoe lives in Oslo.")
    with pytest.raises(EmbedderMismatch, match="vmemo reembed --bank default --embedder deep"):
        Memory(url, embedder="deep").recall_sync("Where does Zoe live?")


def test_memories_share_the_packaged_model_and_its_threads(tmp_path: Path) -> None:
    def use(name: str) -> set[int | None]:
        with Memory(f"sqlite:///{tmp_path / name}") as memory:
            memory.retain_sync("Zoe lives in Oslo.")
        return {thread.ident for thread in threading.enumerate() if thread.name.startswith("vmemo-embed")}

    first = use("one.db")
    assert first
    assert use("two.db") <= first


def test_one_event_loop_embeds_several_things_at_once() -> None:
    embedder = PackagedEmbedder(batch=1)

    async def work() -> list[Vectors]:
        return await asyncio.gather(*(embedder.embed([text], "query") for text in TEXTS))

    for text, answer in zip(TEXTS, asyncio.run(work()), strict=True):
        np.testing.assert_allclose(answer, embed([text], "query"), atol=1e-6)


@pytest.mark.parametrize("file", ["encoder.onnx", "tokens.npz", "tokens.spm", "words.npy"])
def test_a_changed_model_file_is_refused_with_what_to_do(file: str, tmp_path: Path) -> None:
    folder = copied_model(tmp_path)
    with (folder / file).open("r+b") as changed:
        changed.write(b"x")
    embedder = PackagedEmbedder(replace(ENCODER, folder=folder))
    with pytest.raises(ModelCorrupt, match=rf"{file} has SHA-256 .* pip install --force-reinstall") as caught:
        embed(["text"], embedder=embedder)
    assert isinstance(caught.value.__cause__, ModelFileError)


def test_a_missing_model_file_is_refused_and_its_return_is_noticed(tmp_path: Path) -> None:
    folder = copied_model(tmp_path)
    (folder / "tokens.spm").rename(tmp_path / "aside")
    embedder = PackagedEmbedder(replace(ENCODER, folder=folder))
    with pytest.raises(ModelCorrupt, match=r"tokens\.spm can't be read"):
        embed(["text"], embedder=embedder)
    (tmp_path / "aside").rename(folder / "tokens.spm")
    np.testing.assert_array_equal(embed(["text"], embedder=embedder), embed(["text"]))


def test_making_an_embedder_reads_nothing(tmp_path: Path) -> None:
    assert PackagedEmbedder(replace(ENCODER, folder=tmp_path / "nowhere")).dimension == 384
