"""A reranker that scores pairs of query and text with a local ONNX cross-encoder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from vmemo.embedding.onnx_session import OnnxSession, TensorInfo, concurrent_passes, open_session
from vmemo.embedding.wordpiece import WordPiece
from vmemo.errors import InvalidInput, RerankFailed

_MIN_TOKENS = 5
"""Tokens of a pair with one word of the query and one of the text."""
_MARKERS = ("[UNK]", "[CLS]", "[SEP]")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_FLOATS = ("tensor(float)", "tensor(float16)", "tensor(double)")
_MAX_CASED_SHARE = 0.01
"""Share of tokens with capitals above which a vocabulary is cased: a third in cased ones, none in others."""
_NEEDED = (
    "Nothing was loaded. Give a folder with model.onnx, or the path of an .onnx file, and beside it vocab.txt or "
    "tokenizer.json of a lower-casing BERT WordPiece tokenizer"
)


class EncodedPair(NamedTuple):
    """The token ids of a query and a text in one row, and the index at which the text starts."""

    ids: list[int]
    text_start: int


@dataclass(frozen=True)
class _Loaded:
    tokenizer: WordPiece
    session: OnnxSession
    inputs: Mapping[str, type[np.int64 | np.int32]]
    output: str


class CrossEncoder:
    """Reranks with your own model on the CPU, loaded at first use. Threads and event loops may share it.

    `path` is a folder with `model.onnx`, or an `.onnx` file; `vocab.txt` or `tokenizer.json` is beside it, or in the
    parent of a folder named `onnx`. `name` defaults to the folder's name. A pair of query and text has at most
    `max_tokens` tokens; the text is truncated first. `batch` is the maximum number of pairs per pass, `threads` the
    number of threads per pass. Passes run in separate threads, so the event loop is not blocked.
    """

    def __init__(
        self, path: str | Path, *, name: str | None = None, max_tokens: int = 256, batch: int = 16, threads: int = 1
    ) -> None:
        for option, given, least in (
            ("max_tokens", max_tokens, _MIN_TOKENS),
            ("batch", batch, 1),
            ("threads", threads, 1),
        ):
            if given < least:
                raise InvalidInput(f"{option} is {given}, but must be at least {least}")
        self._path = Path(path)
        self._name = name or _name_of(self._path)
        self._max_tokens = max_tokens
        self._batch = batch
        self._threads = threads
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
        batches = list(_batches(pairs, self._batch, padded="attention_mask" in self._load().inputs))
        work = (in_thread(self._executor, self._run, [pairs[index] for index in batch]) for batch in batches)
        scores = np.empty(len(texts), dtype=np.float64)
        for batch, answer in zip(batches, await asyncio.gather(*work), strict=True):
            scores[batch] = answer
        return scores.tolist()

    def _encode(self, query: str, texts: Sequence[str]) -> list[EncodedPair]:
        encode = self._load().tokenizer.encode
        encoded = encode(query)
        return [join_pair(encoded, encode(text), max_tokens=self._max_tokens) for text in texts]

    def _run(self, pairs: Sequence[EncodedPair]) -> NDArray[np.float64]:
        """Run one model pass and return a score for each pair."""
        loaded = self._load()
        feed = {name: rows.astype(loaded.inputs[name]) for name, rows in _rows(pairs).items() if name in loaded.inputs}
        try:
            (logits,) = loaded.session.run([loaded.output], feed)
        # The runtime's errors have no common base class.
        except Exception as error:
            longest = max(len(pair.ids) for pair in pairs)
            raise RerankFailed(
                f"The cross-encoder {self.name!r} failed on {len(pairs)} pairs of up to {longest} tokens: {error}. "
                "Nothing was changed; set max_tokens to what the model supports"
            ) from error
        return _scores(logits, len(pairs), self.name)

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._loading:
                self._loaded = self._loaded or _open(self._path, self._max_tokens, self._threads)
        return self._loaded


def join_pair(query: Sequence[int], text: Sequence[int], *, max_tokens: int) -> EncodedPair:
    """Join two encodings into one of at most `max_tokens` ids: start, query, end, text, end.

    The text is truncated first, but not below half: without any text, all texts would get the same score.
    """
    end = query[-1]
    words = text[1:-1]
    first = [*query[:-1][: max(max_tokens // 2, max_tokens - len(words) - 2)], end]
    return EncodedPair([*first, *words[: max_tokens - len(first) - 1], end], len(first))


def _batches(pairs: Sequence[EncodedPair], size: int, *, padded: bool) -> Iterator[list[int]]:
    """Yield the indexes of pairs to run together: of similar length, or of equal length without an attention mask."""
    batch: list[int] = []
    for index in sorted(range(len(pairs)), key=lambda index: len(pairs[index].ids)):
        if len(batch) == size or (batch and not padded and len(pairs[index].ids) > len(pairs[batch[0]].ids)):
            yield batch
            batch = []
        batch.append(index)
    yield batch


def _rows(pairs: Sequence[EncodedPair]) -> dict[str, NDArray[np.int64]]:
    ids = np.zeros((len(pairs), max(len(pair.ids) for pair in pairs)), dtype=np.int64)
    mask, types = np.zeros_like(ids), np.zeros_like(ids)
    for row, pair in enumerate(pairs):
        length = len(pair.ids)
        ids[row, :length] = pair.ids
        mask[row, :length] = 1
        types[row, pair.text_start : length] = 1
    return dict(zip(_INPUTS, (ids, mask, types), strict=True))


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


def _open(path: Path, max_tokens: int, threads: int) -> _Loaded:
    network = _network(path)
    tokens = _vocabulary(network.parent)
    opened = _session(network, threads)
    inputs = {port.name: port.type for port in opened.get_inputs()}
    if "input_ids" not in inputs or not inputs.keys() <= set(_INPUTS) or not set(inputs.values()) <= _INTEGERS.keys():
        given = ", ".join(f"{name} {type_}" for name, type_ in inputs.items())
        raise _refused(network, f"its inputs are {given}; supported are {', '.join(_INPUTS)}")
    return _Loaded(
        WordPiece(tokens, max_tokens=max_tokens),
        opened,
        {name: _INTEGERS[type_] for name, type_ in inputs.items()},
        _output(network, opened.get_outputs()),
    )


def _output(network: Path, outputs: Sequence[TensorInfo]) -> str:
    found = [port for port in outputs if port.name == "logits" or len(outputs) == 1]
    if not found or found[0].type not in _FLOATS:
        given = ", ".join(f"{port.name} {port.type}" for port in outputs)
        raise _refused(network, f"its outputs are {given}, but logits are required")
    return found[0].name


def _session(network: Path, threads: int) -> OnnxSession:
    try:
        # By path, because the weights of a large model are in a second file beside it.
        return open_session(network, threads)
    # The runtime's errors have no common base class.
    except Exception as error:
        raise _refused(network, f"the runtime can't load it: {error}") from error


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


def _vocabulary(folder: Path) -> list[str]:
    """Return the tokens by id. tokenizer.json has precedence, because it also defines the splitting."""
    for place in (folder, folder.parent) if folder.name == "onnx" else (folder,):
        for file, read in (("tokenizer.json", _from_json), ("vocab.txt", _from_lines)):
            if (place / file).exists():
                return _checked(place / file, read(place / file))
    raise _refused(folder, "there is neither vocab.txt nor tokenizer.json")


def _from_lines(file: Path) -> list[str]:
    return _text(file).removesuffix("\n").split("\n")


def _from_json(file: Path) -> list[str]:
    try:
        ids = _TokenizerFile.model_validate_json(_text(file)).model.vocab
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"])) or "the file"
        raise _refused(file, f"{place} is not that of a lower-casing WordPiece tokenizer: {problem['msg']}") from error
    tokens = sorted(ids, key=lambda token: ids[token])
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise _refused(file, "its ids are not consecutive from 0")
    return tokens


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(file, f"it can't be read: {error}") from error


def _checked(file: Path, tokens: list[str]) -> list[str]:
    missing = [marker for marker in _MARKERS if marker not in tokens]
    if missing:
        raise _refused(file, f"it has no {', '.join(missing)}")
    cased = sum(token != token.lower() for token in tokens if not token.startswith("["))
    if cased > _MAX_CASED_SHARE * len(tokens):
        raise _refused(file, f"{cased} of its {len(tokens)} tokens have capitals, so the model is cased")
    return tokens


class _Normalizer(BaseModel):
    type: Literal["BertNormalizer"]
    lowercase: Literal[True]
    strip_accents: Literal[True] | None = None
    clean_text: Literal[True] = True
    handle_chinese_chars: Literal[True] = True


class _WordPieceModel(BaseModel):
    type: Literal["WordPiece"]
    vocab: dict[str, int]
    continuing_subword_prefix: Literal["##"] = "##"


class _TokenizerFile(BaseModel):
    """The content that a tokenizer.json must have for `WordPiece` to split texts as the model's tokenizer does."""

    model_config = ConfigDict(hide_input_in_errors=True)
    normalizer: _Normalizer
    model: _WordPieceModel


def _refused(path: Path, problem: str) -> InvalidInput:
    return InvalidInput(f"{path} can't be used as a cross-encoder: {problem}. {_NEEDED}")


def _name_of(path: Path) -> str:
    folder = path.parent if path.suffix == ".onnx" else path
    return (folder.parent if folder.name == "onnx" else folder).resolve().name
