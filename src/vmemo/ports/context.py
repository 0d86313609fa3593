"""The context of a memory: the store, the models and the settings that every stage works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vmemo.models.settings import Redactor, Settings
from vmemo.ports.providers import LLM, Embedder, Extractor, Reranker, RevisionModel, TimeReader, TokenCounter
from vmemo.ports.store import Store


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """One memory's store, models and settings, shared by its banks."""

    store: Store
    embedder: Embedder
    owns_embedder: bool = False
    """True if the memory made the embedder itself and closes it."""
    extractor: Extractor
    """Extracts facts when there is no language model."""
    llm: LLM | None
    owns_llm: bool = False
    """True if the memory made the model itself and closes it."""
    counter: TokenCounter
    reranker: Reranker | Literal["late", "none"] = "late"
    revision_model: RevisionModel | None = None
    """Decides which known facts new ones make outdated when there is no language model; None leaves it to rules."""
    time_reader: TimeReader | None = None
    """Finds times in other languages than English."""
    redactor: Redactor | None = None
    """Removes from messages what must not be stored."""
    settings: Settings

    @property
    def engine(self) -> str:
        """The name of the engine that extracts facts."""
        return self.extractor.name if self.llm is None else self.llm.name
