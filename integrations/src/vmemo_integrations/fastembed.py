"""Models that fastembed runs on this machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from vmemo.embedding.named_embedders import prefixes_of
from vmemo.errors import EmbeddingFailed, InvalidInput, MissingExtra
from vmemo.models.search import Vector, Vectors
from vmemo.ports import TextKind


class _Model(Protocol):
    def embed(self, documents: Sequence[str]) -> Iterable[Vector]: ...


class _ModelClass(Protocol):
    def __call__(self, model_name: str, **options: object) -> _Model: ...
    def list_supported_models(self) -> list[dict[str, object]]: ...


class FastEmbedEmbedder:
    """A model that fastembed supports, by its name or as a folder; loaded at first use. Threads may share it.

    A named model is downloaded at first use unless fastembed's cache has it. A folder, whose name must be that of the
    model, is used as it is: nothing is downloaded.
    """

    def __init__(self, model: str) -> None:
        if find_spec("fastembed") is None:
            raise MissingExtra(f"The embedder 'fastembed:{model}' needs the extra: pip install 'vmemo[fastembed]'")
        path = Path(model).expanduser()
        self._folder = path if path.is_absolute() or model.startswith(".") else None
        if self._folder is not None and not self._folder.is_dir():
            raise InvalidInput(f"There is no folder {self._folder} with a model for fastembed.")
        self._model = model
        self._prefixes: Mapping[TextKind, str] = {}
        self._dimension = 0
        self._lock = threading.Lock()
        self._loaded: _Model | None = None

    @property
    def name(self) -> str:
        """The name of the vector space; that of a folder does not depend on where the folder is."""
        return f"fastembed:{self._model if self._folder is None else self._folder.name}"

    @property
    def dimension(self) -> int:
        """The dimension, or 0 before the first use."""
        return self._dimension

    def expect_dimension(self, dimension: int) -> None:
        """Require the dimension of a bank that this embedder wrote earlier."""
        self._dimension = self._dimension or dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return one vector per text."""
        return await asyncio.to_thread(self._embed, texts, kind)

    def _embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
        prefix = self._prefixes.get(kind, "")
        vectors = np.asarray(list(self._loaded.embed([prefix + text for text in texts])), np.float32)
        if len(texts):
            self._dimension = self._dimension or vectors.shape[1]
        return vectors.reshape(len(texts), -1) if len(texts) else np.zeros((0, self._dimension), np.float32)

    def _load(self) -> _Model:
        model_class = cast("_ModelClass", import_module("fastembed").TextEmbedding)
        known = {str(model["model"]): _repository(model) for model in model_class.list_supported_models()}
        model = self._model if self._folder is None else _model_of(self._folder, known)
        by_name = {name.casefold(): name for name in known}
        if model is None or model.casefold() not in by_name:
            raise InvalidInput(
                f"fastembed has no model {self._model!r}. Use one of its names, or a folder with such a name: "
                f"{', '.join(sorted(known))}"
            )
        self._prefixes = prefixes_of(model)
        local = {} if self._folder is None else {"specific_model_path": str(self._folder), "local_files_only": True}
        try:
            return model_class(by_name[model.casefold()], **local)
        # fastembed raises many kinds of errors, of its own, of the download and of onnxruntime.
        except Exception as error:
            raise EmbeddingFailed(
                f"The embedder {self.name!r} was not loaded: {error}. Without a network, give the folder of its files: "
                "fastembed:/path/to/bge-small-en-v1.5"
            ) from error


def _repository(model: Mapping[str, object]) -> str:
    """Return the repository that a supported model is downloaded from."""
    sources = model.get("sources")
    return str(cast("Mapping[str, object]", sources).get("hf") or "") if isinstance(sources, Mapping) else ""


def _model_of(folder: Path, known: Mapping[str, str]) -> str | None:
    """Return the supported model whose name, or whose repository's, is that of the folder."""
    names = {folder.name.casefold()}
    return next(
        (
            model
            for model, repository in known.items()
            if names & {model.rpartition("/")[2].casefold(), repository.rpartition("/")[2].casefold()}
        ),
        None,
    )
