"""Every error that vmemo raises on purpose.

```text
VmemoError
├── InvalidInput          the caller's value can't be used; nothing changed
├── NotFound              an id or a bank that is not there; nothing changed
├── EmbedderMismatch      the bank was written with another embedder
├── EmbeddingFailed       the embedder gave no usable vector; messages stay queued
├── LLMFailed             a language model gave no usable answer; messages stay stored and queued
│   ├── LLMUnavailable    it could not be reached, was too slow or too busy; tried again later
│   ├── LLMRefused        it declined to answer
│   ├── LLMUnusable       its answer did not fit, even after it was asked to repair it
│   └── LLMDenied         the key, the model or the request is not accepted; correct the configuration
├── RerankFailed          the reranker gave no usable scores; recall works without it
├── StoreError            the database refused or failed; the transaction was rolled back
│   ├── StoreBusy         another process held the lock for too long, or the server is away; try again
│   ├── OutcomeUnknown    the connection was lost while the transaction was committed; look before repeating
│   ├── ReadingDelayed    messages are stored and queued, but the database was busy or away before they were read
│   ├── SchemaTooNew      the database was written by a newer vmemo
│   └── ScrubDelayed      rows are gone, but the file could not be rewritten yet
├── ModelCorrupt          a packaged model file is not the one that was released
├── ServerFailed          a vmemo server gave no usable answer; whether it did what was asked is not known
│   ├── ServerUnavailable it could not be reached, was too slow or too busy; nothing was changed unless it says so
│   └── ServerDenied      the key is missing, unknown or lacks the right; nothing was changed
├── MissingExtra          an optional package is needed; the message holds the command
└── Unsupported           the configured engine or store can't do this; the message says what can
```
"""

from __future__ import annotations


class VmemoError(Exception):
    """Base of everything vmemo raises on purpose; catch it to catch them all."""

    stored: tuple[str, ...] = ()
    """Ids of messages that were stored before the error occurred. They are queued; do not retain them again."""


class InvalidInput(VmemoError, ValueError):
    """A value can't be used. Nothing was changed; correct the value the message names."""


class NotFound(VmemoError, LookupError):
    """An id, document, entity or bank does not exist here. Nothing was changed."""


class EmbedderMismatch(VmemoError):
    """The bank holds vectors of another embedder. Nothing was changed; run `vmemo reembed` or pass the old one."""


class EmbeddingFailed(VmemoError):
    """The embedder failed or broke its contract. Messages are stored and stay queued; `process()` resumes."""


class LLMFailed(VmemoError):
    """A language model gave no usable answer. Messages are stored and stay queued; `process()` resumes."""


class LLMUnavailable(LLMFailed):
    """The model could not be reached, took too long or was too busy, several times over. It is tried again later."""


class LLMRefused(LLMFailed):
    """The model declined to answer. The work is tried again later; another model may read it."""


class LLMUnusable(LLMFailed):
    """The model's answer did not fit what was asked for, and its repair did not either. It is tried again later."""


class LLMDenied(LLMFailed):
    """The service does not accept the key, the model's name or the request. Correct them; the work stays queued."""


class RerankFailed(VmemoError):
    """The reranker failed or broke its contract. Nothing was changed; recall works with `reranker="none"`."""


class StoreError(VmemoError):
    """The database refused an operation. Its transaction was rolled back whole."""


class StoreBusy(StoreError):
    """Another process held the database too long, or its server is away. Nothing was written; repeat the call."""


class OutcomeUnknown(StoreError):
    """The connection was lost during a commit. All was written or nothing; look before you repeat the call."""


class ProcessingDelayed(StoreError):
    """Messages are stored and queued, but the database was busy or away before they were read; `process()` resumes."""


class SchemaTooNew(StoreError):
    """The database was written by a newer vmemo. Nothing was touched; upgrade vmemo to open it."""


class ScrubDelayed(StoreError):
    """Forgotten rows are deleted, but other connections kept the file from being rewritten; forget again later."""


class ModelCorrupt(VmemoError):
    """A packaged model file does not match its recorded hash. Reinstall vmemo; nothing was loaded."""


class ServerFailed(VmemoError):
    """A vmemo server gave no usable answer. Whether it did what was asked is not known; look before you repeat it."""


class ServerUnavailable(ServerFailed):
    """The server could not be reached, took too long or was too busy, several times over. Try again later."""


class ServerDenied(ServerFailed):
    """The server does not accept the key, or the key lacks the right. Nothing was changed."""


class MissingExtra(VmemoError, ImportError):
    """An optional package is missing. The message holds the exact install command."""


class Unsupported(VmemoError):
    """What was asked for is not possible with this engine or store. The message says what would make it so."""


def public_name(error: BaseException) -> str:
    """The name of an error as this module knows it; kinds that adapters make of it mean nothing to others."""
    public = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == __name__)
    return next(public, type(error).__name__)


def named(error: BaseException) -> str:
    """An error with its public name in front."""
    return f"{public_name(error)}: {error}"


def error_class(name: str) -> type[VmemoError]:
    """Return the error class with a public name, or `VmemoError` if there is none."""
    known: object = globals().get(name)
    return known if isinstance(known, type) and issubclass(known, VmemoError) else VmemoError
