"""Cross-encoders by path, with real ONNX models that are written here, byte by byte."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import FLOAT, INT32, INT64, node, onnx_model, port
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing

from vmemo.errors import InvalidInput, RerankFailed
from vmemo.ports import Reranker
from vmemo_integrations.cross_encoder import CrossEncoder

MARKERS = {"[PAD]": 5e5, "[UNK]": 0.0, "[CLS]": 0.25, "[SEP]": 0.5}
WORDS = {"which": 0.0, "pet": 1.0, "cat": 16.0, "##s": 2.0, "train": -8.0, "grey": 4.0, "!": 0.125}
WEIGHTS = MARKERS | WORDS
QUESTION = "Which pet?"
AROUND = 0.25 + 1.0 + 0.5 + 10 * 0.5
"""The weight of start, query and both ends: [CLS] which pet [UNK] [SEP] … [SEP]."""
TOKENIZER = Tokenizer(WordPiece({token: n for n, token in enumerate(WEIGHTS)}, unk_token="[UNK]"))
TOKENIZER.normalizer = BertNormalizer(lowercase=True)
TOKENIZER.pre_tokenizer = BertPreTokenizer()
TOKENIZER.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
TOKENIZER.add_special_tokens(["[CLS]", "[SEP]"])  # pyright: ignore[reportUnknownMemberType]


@dataclass(frozen=True)
class Net:
    """A model that adds up its tokens' weights, tenfold in the second segment, and nothing where the mask is 0."""

    inputs: tuple[str, ...] = ("input_ids", "attention_mask", "token_type_ids")
    integer: int = INT64
    outputs: tuple[str, ...] = ("logits",)
    columns: int = 1
    flat: bool = False
    weights: tuple[float, ...] = tuple(WEIGHTS.values())

    def write(self, folder: Path, file: str = "model.onnx") -> Path:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(self.model())
        return folder

    def model(self) -> bytes:
        table = np.outer(self.weights, [1.0, -2.0, 3.0][: self.columns]).astype("<f4")
        last, nodes = "weight", [node("Gather", ["table", self.inputs[0]], "weight")]
        if "token_type_ids" in self.inputs:
            nodes += [*as_float("token_type_ids"), node("Mul", ["token_type_ids_f", "nine"], "extra")]
            nodes += [node("Add", ["extra", "one"], "factor"), node("Mul", [last, "factor"], "tenfold")]
            last = "tenfold"
        if "attention_mask" in self.inputs:
            nodes += [*as_float("attention_mask"), node("Mul", [last, "attention_mask_f"], "masked")]
            last = "masked"
        nodes += [node("ReduceSum", [last, "rows"], "total", keepdims=0)]
        nodes += [node("Squeeze", ["total", "rows"], self.outputs[0])] if self.flat else []
        nodes += [node("Identity", ["total"], name) for name in self.outputs[self.flat :]]
        constants = [("table", table), ("one", np.ones(1, "<f4")), ("nine", np.full(1, 9, "<f4"))]
        axes = [("rows", np.array([1], "<i8")), ("columns", np.array([2], "<i8"))]
        inputs = [port(name, self.integer, 2) for name in self.inputs]
        return onnx_model(
            nodes, [*constants, *axes], inputs, [port(name, FLOAT, 1 if self.flat else 2) for name in self.outputs]
        )


def as_float(name: str) -> list[bytes]:
    """The rows of an input as numbers of shape (rows, tokens, 1)."""
    return [node("Cast", [name], f"{name}_n", to=FLOAT), node("Unsqueeze", [f"{name}_n", "columns"], f"{name}_f")]


def folder_with(net: Net, folder: Path) -> Path:
    net.write(folder)
    (folder / "tokenizer.json").write_text(TOKENIZER.to_str())
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_with(Net(), tmp_path / "sum-of-words")


def rerank(reranker: Reranker, texts: Sequence[str], question: str = QUESTION) -> Sequence[float]:
    return asyncio.run(reranker.rerank(question, texts))


def test_a_score_is_the_models_for_question_and_text(folder: Path) -> None:
    scores = rerank(CrossEncoder(folder), ["grey cats!", "train", ""])
    assert scores == [AROUND + 10 * (4 + 16 + 2 + 0.125), AROUND - 80, AROUND]


def test_the_question_counts_too(folder: Path) -> None:
    reranker = CrossEncoder(folder)
    assert rerank(reranker, ["cat"], "grey")[0] - rerank(reranker, ["cat"], "train")[0] == 12


def test_it_is_a_reranker_named_after_its_folder_or_as_told(folder: Path) -> None:
    reranker: Reranker = CrossEncoder(folder)
    assert reranker.name == "sum-of-words"
    assert CrossEncoder(folder / "model.onnx").name == "sum-of-words"
    assert CrossEncoder(folder / "onnx" / "model_int8.onnx").name == "sum-of-words"
    assert CrossEncoder(folder, name="mine").name == "mine"


def test_scores_keep_the_order_of_texts_of_any_length_in_any_batch(folder: Path) -> None:
    texts = ["cat " * (n * 7 % 30) + "grey " * (n % 3) for n in range(50)]
    expected = [AROUND + 10 * (16 * (n * 7 % 30) + 4 * (n % 3)) for n in range(50)]
    assert rerank(CrossEncoder(folder), texts) == expected


def test_no_texts_give_no_scores_and_load_nothing(tmp_path: Path) -> None:
    assert rerank(CrossEncoder(tmp_path / "nowhere"), []) == []


@pytest.mark.parametrize(
    ("net", "factor"),
    [(Net(flat=True), 1), (Net(columns=1), 1), (Net(columns=2), -3), (Net(outputs=("other", "logits")), 1)],
    ids=["one number", "one column", "two columns", "logits among others"],
)
def test_logits_come_in_three_shapes(net: Net, factor: int, tmp_path: Path) -> None:
    reranker = CrossEncoder(folder_with(net, tmp_path))
    assert rerank(reranker, ["cat", "train"]) == [factor * (AROUND + 160), factor * (AROUND - 80)]
    assert rerank(reranker, ["cat"]) == [factor * (AROUND + 160)]


@pytest.mark.parametrize("integer", [INT64, INT32])
def test_only_the_inputs_that_a_model_declares_are_fed_in_its_own_type(integer: int, tmp_path: Path) -> None:
    net = Net(inputs=("input_ids", "attention_mask"), integer=integer)
    texts = ["cat", "grey cat train"]
    assert rerank(CrossEncoder(folder_with(net, tmp_path)), texts) == [2.25 + 16, 2.25 + 12]


def test_without_a_mask_no_padding_reaches_the_model(tmp_path: Path) -> None:
    reranker = CrossEncoder(folder_with(Net(inputs=("input_ids",)), tmp_path))
    assert rerank(reranker, ["cat", "grey cat", "train", ""]) == [18.25, 22.25, -5.75, 2.25]


def test_the_text_is_cut_before_the_question(folder: Path) -> None:
    reranker = CrossEncoder(folder, max_tokens=10)
    # [CLS] pet pet pet [SEP] cat cat cat cat [SEP]
    assert rerank(reranker, ["cat " * 600], "pet " * 3) == [0.25 + 3 + 0.5 + 640 + 5]


def test_a_long_query_leaves_half_of_the_tokens_for_the_text(folder: Path) -> None:
    reranker = CrossEncoder(folder, max_tokens=10)
    # Half of the ten tokens at most, unless the text needs less than the other half.
    assert rerank(reranker, ["cat " * 600, "cat"], "pet " * 600) == [0.25 + 3 + 0.5 + 640 + 5, 0.25 + 6 + 0.5 + 160 + 5]


def test_markers_are_plain_text_and_lone_surrogates_are_dropped(folder: Path) -> None:
    # "[CLS]" is three unknown words of weight 0.
    assert rerank(CrossEncoder(folder), ["[CLS] cat", "c\ud800at"]) == [AROUND + 160] * 2


def test_a_text_of_a_million_characters_is_scored(folder: Path) -> None:
    texts = [unit * (1_000_000 // len(unit)) for unit in ("a", " ", "\u0301", "日", "a,")]
    assert rerank(CrossEncoder(folder), texts) == [AROUND] * 5


def test_a_model_is_found_under_another_name_and_in_the_usual_folder(folder: Path) -> None:
    (folder / "model.onnx").rename(folder / "small.onnx")
    assert rerank(CrossEncoder(folder), ["cat"]) == [AROUND + 160]
    Net(flat=True).write(folder, "onnx/model.onnx")
    (folder / "small.onnx").unlink()
    for path in (folder, folder / "onnx", folder / "onnx" / "model.onnx", str(folder)):
        assert rerank(CrossEncoder(path), ["cat"]) == [AROUND + 160]


def test_of_several_models_one_must_be_named(folder: Path) -> None:
    (folder / "model.onnx").rename(folder / "a.onnx")
    Net().write(folder, "b.onnx")
    with pytest.raises(InvalidInput, match=r"it contains a\.onnx, b\.onnx; give the path of one of them"):
        rerank(CrossEncoder(folder), ["cat"])
    assert rerank(CrossEncoder(folder / "b.onnx"), ["cat"]) == [AROUND + 160]


NEEDED = "Give a folder with model.onnx"


@pytest.mark.parametrize("path", ["nowhere", "nowhere.onnx", "sum-of-words/tokenizer.json"])
def test_a_path_without_a_model_is_refused_with_what_is_needed(path: str, folder: Path) -> None:
    with pytest.raises(InvalidInput, match=rf"there is no model\.onnx.* {NEEDED}"):
        rerank(CrossEncoder(folder.parent / path), ["cat"])


def test_a_file_that_is_no_model_is_refused(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(InvalidInput, match=rf"the runtime can't load it.* {NEEDED}") as caught:
        rerank(CrossEncoder(folder), ["cat"])
    assert caught.value.__cause__ is not None


def test_a_missing_tokenizer_is_refused_and_its_return_is_noticed(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "aside")
    reranker = CrossEncoder(folder)
    with pytest.raises(InvalidInput, match=rf"there is no tokenizer\.json.* {NEEDED}"):
        rerank(reranker, ["cat"])
    (folder / "aside").rename(folder / "tokenizer.json")
    assert rerank(reranker, ["cat"]) == [AROUND + 160]


@pytest.mark.parametrize("content", [b"", b"not json", b"{}", b"\xff\xfe"])
def test_a_file_that_is_no_tokenizer_is_refused(content: bytes, folder: Path) -> None:
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=rf"tokenizer\.json can't be used.*it can't be read.* {NEEDED}"):
        rerank(CrossEncoder(folder), ["cat"])


@pytest.mark.parametrize(
    ("net", "problem"),
    [
        (Net(inputs=("input_ids", "position_ids")), "its inputs are .*position_ids"),
        (Net(inputs=("tokens",)), "its inputs are tokens"),
        (Net(outputs=("first", "second")), "its outputs are first .*second"),
    ],
)
def test_a_model_with_other_inputs_or_outputs_is_refused(net: Net, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=rf"{problem}.* {NEEDED}"):
        rerank(CrossEncoder(folder_with(net, tmp_path)), ["cat"])


@pytest.mark.parametrize("texts", [["cat"], ["cat", "train"], ["cat"] * 3])
def test_logits_of_another_shape_are_an_error(texts: list[str], tmp_path: Path) -> None:
    with pytest.raises(RerankFailed, match=rf"shape \({len(texts)}, 3\) for {len(texts)} pairs.* relevance head"):
        rerank(CrossEncoder(folder_with(Net(columns=3), tmp_path)), texts)


def test_an_embedding_model_is_refused_and_no_source_of_scores(tmp_path: Path) -> None:
    folder = folder_with(Net(outputs=("pooled", "tokens")), tmp_path)
    with pytest.raises(InvalidInput, match=rf"its outputs are pooled .*but logits are required.* {NEEDED}"):
        rerank(CrossEncoder(folder), ["cat"])


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_not_finite_is_an_error(weight: float, tmp_path: Path) -> None:
    heavy = replace(Net(), weights=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, weight, 0.0, 0.0, 0.0, 0.0))
    reranker = CrossEncoder(folder_with(heavy, tmp_path))
    assert rerank(reranker, ["train"]) == [0]
    with pytest.raises(RerankFailed, match="not a finite number"):
        rerank(reranker, ["train", "cat"])


def test_a_pass_that_fails_is_an_error_with_what_may_help(tmp_path: Path) -> None:
    reranker = CrossEncoder(folder_with(replace(Net(), weights=(1.0,) * 7), tmp_path))
    with pytest.raises(RerankFailed, match=r"failed on 1 pairs of up to 7 tokens.*max_tokens") as caught:
        rerank(reranker, ["train"])
    assert caught.value.__cause__ is not None


def test_too_few_tokens_for_a_pair_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="max_tokens is 4, but"):
        CrossEncoder(tmp_path, max_tokens=4)


def test_the_event_loop_is_not_blocked_while_a_model_loads(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    os.mkfifo(folder / "tokenizer.json")

    async def work() -> Sequence[float]:
        asked = asyncio.create_task(CrossEncoder(folder).rerank(QUESTION, ["cat"]))
        await asyncio.sleep(0)
        # Opening waits for a reader, and the reader for these words: no one gets on if the loop does the reading.
        (folder / "tokenizer.json").write_text(TOKENIZER.to_str())
        return await asked

    assert asyncio.run(work()) == [AROUND + 160]


def test_threads_with_event_loops_of_their_own_share_one_reranker(folder: Path) -> None:
    reranker = CrossEncoder(folder)
    start = threading.Barrier(4)

    def work(number: int) -> Sequence[float]:
        start.wait()
        return rerank(reranker, ["cat " * number] * 40)

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(work, range(4)))
    assert answers == [[AROUND + 160 * number] * 40 for number in range(4)]


def test_reranking_prints_nothing(folder: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from vmemo_integrations.cross_encoder import CrossEncoder\n"
        "asyncio.run(CrossEncoder(sys.argv[1]).rerank('quiet', ['cat']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
