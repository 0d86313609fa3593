"""Long-term memory for AI agents: retain, recall, reflect."""

from vmemo.errors import (
    EmbedderMismatch,
    EmbeddingFailed,
    InvalidInput,
    LLMDenied,
    LLMFailed,
    LLMRefused,
    LLMUnavailable,
    LLMUnusable,
    MissingExtra,
    ModelCorrupt,
    NotFound,
    RerankFailed,
    SchemaTooNew,
    ScrubDelayed,
    StoreBusy,
    StoreError,
    Unsupported,
    VmemoError,
)
from vmemo.memory import Memory
from vmemo.models import Disposition, Entity, Episode, Fact, Hit, Interval, Message, Profile, Provenance
from vmemo.recall.explain import Explanation
from vmemo.recall.recalled import Recalled
from vmemo.reports import Answer, Retained, Status
from vmemo.retain.maintain import Upkeep
from vmemo.settings import Settings
from vmemo.tasks import Task

__all__ = [
    "Answer",
    "Disposition",
    "EmbedderMismatch",
    "EmbeddingFailed",
    "Entity",
    "Episode",
    "Explanation",
    "Fact",
    "Hit",
    "Interval",
    "InvalidInput",
    "LLMDenied",
    "LLMFailed",
    "LLMRefused",
    "LLMUnavailable",
    "LLMUnusable",
    "Memory",
    "Message",
    "MissingExtra",
    "ModelCorrupt",
    "NotFound",
    "Profile",
    "Provenance",
    "Recalled",
    "RerankFailed",
    "Retained",
    "SchemaTooNew",
    "ScrubDelayed",
    "Settings",
    "Status",
    "StoreBusy",
    "StoreError",
    "Task",
    "Unsupported",
    "Upkeep",
    "VmemoError",
]
