"""Sessions of ONNX Runtime, which carries no types of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, cast

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

MAX_PASSES = 4
"""Passes that run at once, where there are as many processors; more would take too much memory."""
_SILENT = 4
Integers: TypeAlias = NDArray[np.int64 | np.int32]


class _Options(Protocol):
    intra_op_num_threads: int
    inter_op_num_threads: int
    log_severity_level: int


class Port(Protocol):
    """An input or an output of a model."""

    name: str
    type: str


class Session(Protocol):
    """A loaded model."""

    def get_inputs(self) -> Sequence[Port]: ...
    def get_outputs(self) -> Sequence[Port]: ...
    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Integers], /) -> list[NDArray[np.float32]]: ...


def session(network: bytes | str, threads: int) -> Session:
    """A model, given whole or by its path, on the CPU with so many threads to a pass. Callers' threads may share it."""
    options = cast("_Options", ort.SessionOptions())  # pyright: ignore[reportUnknownMemberType]
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    return cast("Session", ort.InferenceSession(network, options, providers=["CPUExecutionProvider"]))


def passes() -> int:
    """Passes that may run at once: no more than this process has processors, which can be fewer than the machine."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(own, MAX_PASSES)
