"""The packaged revision model: a small head on the token vectors that the packaged encoder stores for each fact."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vmemo.embedding.onnx_session import InputArray, OnnxSession, open_session
from vmemo.errors import ModelCorrupt
from vmemo.ports import StatementPair
from vmemo_models import ModelFileError, RevisionFiles

MAX_PADDED_TOKENS = 2048
"""Padded tokens of one model pass, which bound its memory."""


class PackagedRevisionModel:
    """Implements the RevisionModel port with a packaged model, loaded at first use. Threads may share it."""

    def __init__(self, files: RevisionFiles) -> None:
        self._files = files
        self._loading = threading.Lock()
        self._session: OnnxSession | None = None

    @property
    def name(self) -> str:
        """The model's name."""
        return self._files.name

    @property
    def encoder(self) -> str:
        """The name of the encoder whose token vectors the model takes."""
        return self._files.encoder

    async def score(self, pairs: Sequence[StatementPair]) -> list[float]:
        """Return for each pair the probability that the later statement makes the earlier one outdated."""
        return await asyncio.to_thread(self._score, pairs) if pairs else []

    def _score(self, pairs: Sequence[StatementPair]) -> list[float]:
        session = self._load()
        cut = [(earlier[: self._files.max_tokens], later[: self._files.max_tokens]) for earlier, later in pairs]
        scores = np.zeros(len(pairs), np.float32)
        for batch in batches([len(earlier) + len(later) for earlier, later in cut]):
            [scores[batch]] = session.run(["probability"], model_inputs([cut[n] for n in batch], self._files.width))
        return scores.tolist()

    def _load(self) -> OnnxSession:
        if self._session is None:
            with self._loading:
                self._session = self._session or _open(self._files)
        return self._session


def _open(files: RevisionFiles) -> OnnxSession:
    try:
        return open_session(files.read("model.onnx"), threads=1)
    except ModelFileError as error:
        raise ModelCorrupt(
            f"The revision model {files.name} can't be used: {error}. Nothing was loaded. "
            "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
        ) from error


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Return the indexes of pairs to run together, of similar length to reduce padding; empty ones are left out."""
    found: list[list[int]] = []
    for index in sorted((n for n, length in enumerate(lengths) if length), key=lengths.__getitem__):
        if not found or lengths[index] * (len(found[-1]) + 1) > MAX_PADDED_TOKENS:
            found.append([])
        found[-1].append(index)
    return found


def model_inputs(pairs: Sequence[StatementPair], width: int) -> dict[str, InputArray]:
    """Return the model's inputs: the tokens of each pair in one padded row, the earlier statement first."""
    length = max(len(earlier) + len(later) for earlier, later in pairs)
    tokens = np.zeros((len(pairs), length, width), np.float32)
    segments = np.zeros((len(pairs), length), np.int64)
    positions = np.zeros_like(segments)
    mask: NDArray[np.bool_] = np.zeros((len(pairs), length), np.bool_)
    for row, (earlier, later) in enumerate(pairs):
        first, end = len(earlier), len(earlier) + len(later)
        tokens[row, :first], tokens[row, first:end] = earlier, later
        segments[row, first:end] = 1
        positions[row, :first], positions[row, first:end] = np.arange(first), np.arange(len(later))
        mask[row, :end] = True
    return {"tokens": tokens, "segments": segments, "positions": positions, "mask": mask}
