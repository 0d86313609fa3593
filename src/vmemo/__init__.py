"""Long-term memory for AI agents: retain, recall, reflect."""

import logging

from vmemo.errors import (
    DatabaseReplaced as DatabaseReplaced,
    EmbedderMismatch as EmbedderMismatch,
    EmbeddingFailed as EmbeddingFailed,
    ExtractionFailed as ExtractionFailed,
    InvalidInput as InvalidInput,
    LLMDenied as LLMDenied,
    LLMFailed as LLMFailed,
    LLMRefused as LLMRefused,
    LLMUnavailable as LLMUnavailable,
    LLMUnusable as LLMUnusable,
    MissingExtra as MissingExtra,
    ModelCorrupt as ModelCorrupt,
    NotFound as NotFound,
    OutcomeUnknown as OutcomeUnknown,
    ProcessingDelayed as ProcessingDelayed,
    RedactionFailed as RedactionFailed,
    RerankFailed as RerankFailed,
    SchemaTooNew as SchemaTooNew,
    ServerDenied as ServerDenied,
    ServerFailed as ServerFailed,
    ServerUnavailable as ServerUnavailable,
    StoreBusy as StoreBusy,
    StoreError as StoreError,
    Unsupported as Unsupported,
    VmemoError as VmemoError,
)
from vmemo.memory.memory import Memory as Memory
from vmemo.models import (
    ConfidenceChange as ConfidenceChange,
    Disposition as Disposition,
    Entity as Entity,
    Episode as Episode,
    Fact as Fact,
    FormerProfile as FormerProfile,
    Hit as Hit,
    Interval as Interval,
    Message as Message,
    Profile as Profile,
    Provenance as Provenance,
)
from vmemo.models.prompt_context import PromptContext as PromptContext
from vmemo.models.recalled import (
    Explanation as Explanation,
    Recalled as Recalled,
)
from vmemo.models.results import (
    Answer as Answer,
    Citation as Citation,
    MemoryLookup as MemoryLookup,
    Retained as Retained,
    Retracted as Retracted,
    Status as Status,
    TextDelta as TextDelta,
)
from vmemo.settings import Settings as Settings
from vmemo.sync import Task as Task
from vmemo.text.redact import redact_secrets as redact_secrets
from vmemo.transfer.migrate import (
    MigrationProgress as MigrationProgress,
    MigrationReport as MigrationReport,
    MovedBank as MovedBank,
    migrate as migrate,
    migrate_sync as migrate_sync,
)
from vmemo.transfer.rekey import (
    rekey as rekey,
    rekey_sync as rekey_sync,
)

# Log lines appear only if the application configures logging.
logging.getLogger(__name__).addHandler(logging.NullHandler())
