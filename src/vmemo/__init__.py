"""Long-term memory for AI agents: retain, recall, reflect."""

import logging

from vmemo.errors import (
    DatabaseReplaced,
    EmbedderMismatch,
    EmbeddingFailed,
    ExtractionFailed,
    InvalidInput,
    LLMDenied,
    LLMFailed,
    LLMRefused,
    LLMUnavailable,
    LLMUnusable,
    MissingExtra,
    ModelCorrupt,
    NotFound,
    OutcomeUnknown,
    ProcessingDelayed,
    RedactionFailed,
    RerankFailed,
    SchemaTooNew,
    ServerDenied,
    ServerFailed,
    ServerUnavailable,
    StoreBusy,
    StoreError,
    Unsupported,
    VmemoError,
)
from vmemo.memory.memory import Memory
from vmemo.models import (
    ConfidenceChange,
    Disposition,
    Entity,
    Episode,
    Fact,
    FormerProfile,
    Hit,
    Interval,
    Message,
    Profile,
    Provenance,
)
from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Explanation, Recalled
from vmemo.models.results import Answer, Citation, MemoryLookup, Retained, Retracted, Status, TextDelta
from vmemo.settings import Settings
from vmemo.sync import Task
from vmemo.text.redact import redact_secrets
from vmemo.transfer.migrate import MigrationProgress, MigrationReport, MovedBank, migrate, migrate_sync
from vmemo.transfer.rekey import rekey, rekey_sync

__all__ = [
    "Answer",
    "Citation",
    "ConfidenceChange",
    "DatabaseReplaced",
    "Disposition",
    "EmbedderMismatch",
    "EmbeddingFailed",
    "Entity",
    "Episode",
    "Explanation",
    "ExtractionFailed",
    "Fact",
    "FormerProfile",
    "Hit",
    "Interval",
    "InvalidInput",
    "LLMDenied",
    "LLMFailed",
    "LLMRefused",
    "LLMUnavailable",
    "LLMUnusable",
    "Memory",
    "MemoryLookup",
    "Message",
    "MigrationProgress",
    "MigrationReport",
    "MissingExtra",
    "ModelCorrupt",
    "MovedBank",
    "NotFound",
    "OutcomeUnknown",
    "ProcessingDelayed",
    "Profile",
    "PromptContext",
    "Provenance",
    "Recalled",
    "RedactionFailed",
    "RerankFailed",
    "Retained",
    "Retracted",
    "SchemaTooNew",
    "ServerDenied",
    "ServerFailed",
    "ServerUnavailable",
    "Settings",
    "Status",
    "StoreBusy",
    "StoreError",
    "Task",
    "TextDelta",
    "Unsupported",
    "VmemoError",
    "migrate",
    "migrate_sync",
    "redact_secrets",
    "rekey",
    "rekey_sync",
]

# Log lines appear only if the application configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())
