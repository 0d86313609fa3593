"""A reranker that scores pairs of query and text with a local ONNX cross-encoder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vmemo.embedding.onnx_session import OnnxSession, concurrent_passes, open_session
from vmemo.errors import InvalidInput, MissingExtra, RerankFailed

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BATCH = 16
"""Pairs in one pass, at most."""
_MIN_TOKENS = 5
"""Tokens of a pair with one word of the query and one of the text."""
_MAX_CHARACTERS = 100
"""Characters per token of a pair that are tokenized; those beyond would be cut off."""
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")


class _Pair(NamedTuple):
    """The tokens of a query and a text, under the names of a model's inputs."""

    input_ids: list[int]
    attention_mask: list[int]
    token_type_ids: list[int]


@dataclass(frozen=True)
class _Loaded:
    tokenizer: Tokenizer
    session: OnnxSession
    inputs: Mapping[str, type[np.int64 | np.int32]]
    output: str


class CrossEncoder:
    """Reranks with your own model on the CPU, loaded at first use. Threads and event loops may share it.

    `path` is a folder with `model.onnx`, or an `.onnx` file; `tokenizer.json` is beside it, or in the parent of a
    folder named `onnx`. `name` defaults to the folder's name. A pair of query and text has at most `max_tokens`
    tokens; the longer of the two is truncated first. Passes run in separate threads, so the event loop is not blocked.
    """

    def __init__(self, path: str | Path, *, name: str | None = None, max_tokens: int = 256) -> None:
        if find_spec("tokenizers") is None:
            raise MissingExtra(
                "A cross-encoder needs the package tokenizers, which is not installed. "
                'Run: pip install "vmemo[cross-encoder]"'
            )
        if max_tokens < _MIN_TOKENS:
            raise InvalidInput(f"max_tokens is {max_tokens}, but must be at least {_MIN_TOKENS}")
        self._path = Path(path)
        self._name = name or _name_of(self._path)
        self._max_tokens = max_tokens
        self._executor = ThreadPoolExecutor(concurrent_passes(), thread_name_prefix="vmemo-rerank")
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def name(self) -> str:
        """The given name, or the folder's."""
        return self._name

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the model's logits in the order of the texts; for two logits, the second minus the first."""
        if not texts:
            return []
        in_thread = asyncio.get_running_loop().run_in_executor
        pairs = await in_thread(self._executor, self._encode, query, texts)
        # Without an attention mask, padding would change the scores.
        size = BATCH if "attention_mask" in self._load().inputs else 1
        # Pairs of similar length need little padding.
        order = sorted(range(len(pairs)), key=lambda index: len(pairs[index].input_ids))
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        work = (in_thread(self._executor, self._run, [pairs[index] for index in batch]) for batch in batches)
        scores = np.empty(len(texts), dtype=np.float64)
        for batch, answer in zip(batches, await asyncio.gather(*work), strict=True):
            scores[batch] = answer
        return scores.tolist()

    def _encode(self, query: str, texts: Sequence[str]) -> list[_Pair]:
        tokenizer = self._load().tokenizer
        encoded = (tokenizer.encode(self._beginning(query), self._beginning(text)) for text in texts)
        return [_Pair(each.ids, each.attention_mask, each.type_ids) for each in encoded]

    def _beginning(self, text: str) -> str:
        # Lone surrogates are dropped.
        return text[: _MAX_CHARACTERS * self._max_tokens].encode("utf-8", "ignore").decode()

    def _run(self, pairs: Sequence[_Pair]) -> NDArray[np.float64]:
        """Run one model pass and return a score for each pair."""
        loaded = self._load()
        longest = max(len(pair.input_ids) for pair in pairs)
        feed = {name: np.zeros((len(pairs), longest), kind) for name, kind in loaded.inputs.items()}
        for row, pair in enumerate(pairs):
            for name, rows in feed.items():
                rows[row, : len(pair.input_ids)] = getattr(pair, name)
        try:
            (logits,) = loaded.session.run([loaded.output], feed)
        # The runtime's errors have no common base class.
        except Exception as error:
            raise RerankFailed(
                f"The cross-encoder {self.name!r} failed on {len(pairs)} pairs of up to {longest} tokens: {error}. "
                "Nothing was changed; set max_tokens to what the model supports"
            ) from error
        return _scores(logits, len(pairs), self.name)

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._loading:
                self._loaded = self._loaded or _open(self._path, self._max_tokens)
        return self._loaded


def _scores(logits: NDArray[np.float32], count: int, name: str) -> NDArray[np.float64]:
    if logits.shape not in ((count,), (count, 1), (count, 2)):
        raise RerankFailed(
            f"The cross-encoder {name!r} returned shape {logits.shape} for {count} pairs, but one or two logits "
            "per pair were expected. Nothing was changed; use a model with a relevance head"
        )
    numbers = logits.astype(np.float64)
    scores = numbers[:, 1] - numbers[:, 0] if numbers.shape == (count, 2) else numbers.reshape(count)
    if not np.isfinite(scores).all():
        raise RerankFailed(
            f"The cross-encoder {name!r} returned a score that is not a finite number. Nothing was changed; "
            "use another model, or an export with full precision"
        )
    return scores


def _open(path: Path, max_tokens: int) -> _Loaded:
    network = _network(path)
    tokenizer = _tokenizer(network.parent, max_tokens)
    try:
        # By path, because the weights of a large model are in a second file beside it.
        session = open_session(network, threads=1)
    # The runtime's errors have no common base class.
    except Exception as error:
        raise _refused(network, f"the runtime can't load it: {error}") from error
    inputs = {port.name: port.type for port in session.get_inputs()}
    if "input_ids" not in inputs or not inputs.keys() <= set(_Pair._fields) or set(inputs.values()) - _INTEGERS.keys():
        given = ", ".join(f"{name} {type_}" for name, type_ in inputs.items())
        raise _refused(network, f"its inputs are {given}; supported are {', '.join(_Pair._fields)}")
    outputs = session.get_outputs()
    found = [port.name for port in outputs if port.type in _FLOATS and (port.name == "logits" or len(outputs) == 1)]
    if not found:
        given = ", ".join(f"{port.name} {port.type}" for port in outputs)
        raise _refused(network, f"its outputs are {given}, but logits are required")
    return _Loaded(tokenizer, session, {name: _INTEGERS[type_] for name, type_ in inputs.items()}, found[0])


def _network(path: Path) -> Path:
    """Return the path of the model file."""
    if path.suffix == ".onnx" and path.is_file():
        return path
    for usual in (path / "model.onnx", path / "onnx" / "model.onnx"):
        if usual.is_file():
            return usual
    others = sorted(path.glob("*.onnx"))
    if len(others) == 1:
        return others[0]
    names = ", ".join(other.name for other in others)
    raise _refused(path, f"it contains {names}; give the path of one of them" if others else "there is no model.onnx")


def _tokenizer(folder: Path, max_tokens: int) -> Tokenizer:
    from tokenizers import Tokenizer  # noqa: PLC0415

    places = (folder, folder.parent) if folder.name == "onnx" else (folder,)
    file = next((place / "tokenizer.json" for place in places if (place / "tokenizer.json").exists()), None)
    if file is None:
        raise _refused(folder, "there is no tokenizer.json")
    try:
        tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
    # The tokenizer's errors have no class of their own.
    except Exception as error:
        raise _refused(file, f"it can't be read: {error}") from error
    # A marker such as "[CLS]" in a text is plain text.
    tokenizer.encode_special_tokens = True
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)  # pyright: ignore[reportUnknownMemberType]
    return tokenizer


def _refused(path: Path, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{path} can't be used as a cross-encoder: {problem}. Nothing was loaded. Give a folder with model.onnx, or "
        "the path of an .onnx file, and beside it the tokenizer.json of the model"
    )


def _name_of(path: Path) -> str:
    folder = path.parent if path.suffix == ".onnx" else path
    return (folder.parent if folder.name == "onnx" else folder).resolve().name
