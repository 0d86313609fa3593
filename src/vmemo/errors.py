"""Every error that vmemo raises on purpose."""

from __future__ import annotations


class VmemoError(Exception):
    """Base of all errors that vmemo raises on purpose."""

    stored: tuple[str, ...] = ()
    """Ids of messages that were stored before the error occurred. They are queued; do not retain them again."""


class InvalidInput(VmemoError, ValueError):
    """A value is not valid. Nothing was changed; correct the value that the message names."""


class NotFound(VmemoError, LookupError):
    """An id, document, entity or bank does not exist. Nothing was changed."""


class EmbedderMismatch(VmemoError):
    """The bank holds vectors of another embedder; run `vmemo reembed` or pass the old one.

    Nothing was changed, unless another process runs `reembed` meanwhile: `stored` names messages that are stored and
    stay queued.
    """


class EmbeddingFailed(VmemoError):
    """The embedder failed or returned invalid vectors. Messages are stored and stay queued; `process()` resumes."""


class ExtractionFailed(VmemoError):
    """An extractor or a model object raised an error of its own, the cause. Messages are stored and stay queued."""


class LLMFailed(VmemoError):
    """The language model returned no valid answer. Messages are stored and stay queued; `process()` resumes."""


class LLMUnavailable(LLMFailed):
    """The model was unreachable, too slow, rate limited or gave no completion in every attempt.

    The job is tried again later; `retry_after` is the delay in seconds that the service requested.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class LLMRefused(LLMFailed):
    """The model declined to answer. The job is tried again later; another model may accept it."""


class LLMUnusable(LLMFailed):
    """The model's answer and its repair do not match the schema. The job is tried again later."""


class LLMDenied(LLMFailed):
    """The service rejects the API key, the model's name or the request. Correct them; the job stays queued."""


class RedactionFailed(VmemoError):
    """The redaction raised an error or returned no text. Nothing was stored; correct it and retain again."""


class RerankFailed(VmemoError):
    """The reranker failed or returned invalid scores. Nothing was changed; recall works with `reranker="none"`."""


class StoreError(VmemoError):
    """The database failed. The transaction was rolled back."""


class StoreBusy(StoreError):
    """Another process held the lock too long, or the server is unavailable. Nothing was written; repeat the call."""


class DatabaseReplaced(StoreError):
    """The database file was deleted or replaced while it was open. Close the memory and open it again."""


class OutcomeUnknown(StoreError):
    """The connection was lost during a commit. Everything was written or nothing; check before you repeat the call."""


class ProcessingDelayed(StoreError):
    """Messages are stored and queued, but the database failed before facts were derived; `process()` resumes."""


class SchemaTooNew(StoreError):
    """The database was written by a newer vmemo. Nothing was changed; upgrade vmemo to open it."""


class ModelCorrupt(VmemoError):
    """A packaged model file does not match its recorded hash. Nothing was loaded; reinstall vmemo."""


class ServerFailed(VmemoError):
    """A vmemo server returned no valid response. The outcome is unknown; check before you repeat the call."""


class ServerUnavailable(ServerFailed):
    """The server was unreachable, too slow or too busy in every attempt. Try again later."""


class ServerDenied(ServerFailed):
    """The server rejects the API key, or the key lacks the permission. Nothing was changed."""


class MissingExtra(VmemoError, ImportError):
    """An optional package is missing. The message contains the install command."""


class Unsupported(VmemoError):
    """The configured engine or store can't do this. The message names one that can."""


def public_name(error: BaseException) -> str:
    """Return the name of the error's nearest class in this module; adapters define private subclasses."""
    public = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == __name__)
    return next(public, type(error).__name__)


def named(error: BaseException) -> str:
    """Return the error's public name and its message."""
    return f"{public_name(error)}: {error}"


def error_class(name: str) -> type[VmemoError]:
    """Return the error class with a public name, or `VmemoError` if there is none."""
    known: object = globals().get(name)
    return known if isinstance(known, type) and issubclass(known, VmemoError) else VmemoError
