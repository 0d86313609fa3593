"""Construction of a memory's context: the only module that chooses stores and adapters."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, cast

from vmemo.errors import InvalidInput, MissingExtra
from vmemo.extras import load_integration
from vmemo.models.settings import EncryptionKey, Redactor, Settings
from vmemo.ports import LLM, Embedder, Extractor, Reranker, RevisionModel, Store, TimeReader
from vmemo.retain.context import RetainContext
from vmemo.text.redact import redact_secrets

__all__ = ["EncryptionKey", "Redactor", "Settings", "build", "build_embedder", "build_store", "database_url"]

STORES = "vmemo.stores"
"""Entry point group: other distributions add stores by URL scheme."""
_SQLITE = "sqlite:///"
_NEO4J = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
_SCHEMES = ("sqlite://", "postgresql://", *(f"{scheme}://" for scheme in _NEO4J))


def build(  # noqa: PLR0913 - each is an optional part of the memory
    url: str | Path | None,
    *,
    llm: object,
    embedder: Embedder | str | None,
    reranker: object,
    settings: Settings | None,
    encryption_key: EncryptionKey | None = None,
    revision_model: object = None,
    redact: object = None,
) -> RetainContext:
    """Return the context of a memory. Opens and loads nothing."""
    from vmemo.embedding.token_counter import count_tokens
    from vmemo.retain.local_extraction import LocalExtractor

    if not isinstance(settings, Settings | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"settings must be Settings(...), not {settings!r:.40}.")
    chosen = settings or Settings.from_environment()
    if encryption_key is not None:
        chosen = chosen.model_copy(update={"encryption_key": encryption_key, "encryption_key_file": None})
    times: TimeReader | None = None
    if chosen.languages:
        from vmemo.text.temporal.foreign import DateparserTimes

        times = DateparserTimes(chosen.languages)
    cached = _cached(build_embedder(embedder or chosen.embedder, chosen), chosen)
    model = None if isinstance(llm, Extractor) else _llm(llm or chosen.llm, chosen)
    return RetainContext(
        store=build_store(chosen.url if url is None else url, chosen),
        embedder=cached,
        owns_embedder=isinstance(named := embedder or chosen.embedder, str) and not _is_packaged(named),
        extractor=llm if isinstance(llm, Extractor) else LocalExtractor(times, southern=chosen.southern_seasons),
        llm=model,
        owns_llm=isinstance(llm or chosen.llm, str),
        counter=count_tokens,
        reranker=_reranker(reranker, chosen, model),
        revision_model=_revision_model(revision_model, cached, chosen),
        time_reader=times,
        redactor=_redactor(chosen.redact if redact is None else redact),
        settings=chosen,
    )


def build_embedder(given: object, settings: Settings) -> Embedder:
    """Return the packaged embedder by default; a text names another one."""
    if _is_packaged(given):
        return _packaged_embedder(deep=given is not None)
    if isinstance(given, Embedder):
        return given
    if not isinstance(given, str):
        raise InvalidInput(
            'An embedder is "deep", a text such as openai:text-embedding-3-small, or an object with name, '
            f"dimension and embed(), not {given!r:.40}."
        )
    from vmemo.embedding.named_embedders import EmbedderOptions, resolve_embedder

    options = EmbedderOptions(
        timeout=settings.embedder_timeout,
        tries=settings.attempts,
        base_url=settings.embedder_url,
        api_key=settings.embedder_key,
    )
    return resolve_embedder(given, keys=os.environ, options=options)


def _is_packaged(given: object) -> bool:
    return given is None or given == "deep"


@cache
def _packaged_embedder(*, deep: bool) -> Embedder:
    """Return the embedder that all memories of a process share, so that its model is loaded once."""
    from vmemo.embedding.packaged import PackagedEmbedder
    from vmemo_models import DEEP, ENCODER

    return PackagedEmbedder(DEEP if deep else ENCODER)


def _llm(given: object, settings: Settings) -> LLM | None:
    """The language model that reads; None leaves reading to the local engine."""
    if given is None or isinstance(given, LLM):
        return given
    if not isinstance(given, str):
        raise InvalidInput(
            "llm is a text such as openai:gpt-5-mini, an object with name and complete(), or an Extractor, "
            f"not {given!r:.40}."
        )
    from vmemo.llm.resolve import resolve_llm

    return resolve_llm(given, keys=os.environ, settings=settings)


def _cached(embedder: Embedder, settings: Settings) -> Embedder:
    from vmemo.embedding.cache import EmbeddingCache, cache_embedder

    if settings.embedding_cache and _key_source(settings) is not None:
        raise InvalidInput(
            f"The embedding cache {settings.embedding_cache} is not encrypted, and texts can be guessed from its "
            "vectors. Unset embedding_cache (VMEMO_EMBEDDING_CACHE) for an encrypted database."
        )
    disk = EmbeddingCache(settings.embedding_cache) if settings.embedding_cache else None
    return cache_embedder(embedder, disk)


def _reranker(given: object, settings: Settings, llm: LLM | None) -> Reranker | Literal["late", "none"]:
    """Late interaction unless told otherwise; a URL or a path stands for a service or a model file."""
    if given in (None, "late", "none"):
        return "none" if given == "none" else "late"
    if given == "llm":
        from vmemo.llm.model_reranker import ModelReranker

        if llm is None:
            raise InvalidInput('reranker="llm" needs a language model: pass llm=... or set VMEMO_LLM.')
        return ModelReranker(llm)
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        from vmemo.embedding.service import HttpReranker

        return HttpReranker(given, api_key=settings.reranker_key)
    if isinstance(given, str | Path):
        return load_integration("cross_encoder", "A cross-encoder").CrossEncoder(Path(given).expanduser())
    if isinstance(given, Reranker):
        return given
    raise InvalidInput(
        'A reranker is "late", "none", "llm", a service\'s URL, the path of a cross-encoder, or an object with '
        f"name and rerank(), not {given!r:.40}."
    )


def _redactor(given: object) -> Redactor | None:
    if given in ("none", "secrets"):
        return redact_secrets if given == "secrets" else None
    if callable(given):
        return cast("Redactor", given)
    raise InvalidInput(f'redact must be "secrets", "none" or a function from text to text, not {given!r:.40}.')


def _revision_model(given: object, embedder: Embedder, settings: Settings) -> RevisionModel | None:
    """The packaged model by default, with the embedder that it was made for; other embedders have none."""
    if given is None:
        from vmemo.embedding.revision_model import PackagedRevisionModel
        from vmemo_models import DEEP, ENCODER, REVISION

        fits = settings.revision and embedder.name in (ENCODER.name, DEEP.name)
        return PackagedRevisionModel(replace(REVISION, encoder=embedder.name)) if fits else None
    if given == "none":
        return None
    if not isinstance(given, RevisionModel):
        raise InvalidInput(
            f'A revision model is "none" or an object with name, encoder and score(), not {given!r:.40}.'
        )
    if given.encoder != embedder.name:
        raise InvalidInput(
            f"The revision model {given.name!r} takes cosines of {given.encoder!r}, but the embedder is "
            f"{embedder.name!r}. Pass that embedder too, or another revision model."
        )
    return given


def database_url(given: str | Path) -> str:
    """Return the URL of a database that is given as a URL, a file path or :memory:; ~ is the home directory."""
    if not isinstance(given, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"A database is given as text or a Path, not {type(given).__name__}.")
    text = str(given)
    if "\0" in text:
        raise _not_a_database(text.partition(":")[0])
    scheme, colon, _ = text.partition(":")
    is_drive = len(scheme) == 1 and text[2:3] in ("/", "\\")
    if isinstance(given, str) and colon and scheme.replace("+", "").isalnum() and not is_drive:
        if not text.startswith(_SCHEMES):
            raise _not_a_database(scheme)
        if not text.startswith(_SQLITE):
            return text
    path = text.removeprefix(_SQLITE)
    if not path:
        raise _not_a_database(path)
    try:
        return f"{_SQLITE}{Path(path).expanduser()}" if path.startswith("~") else f"{_SQLITE}{path}"
    except RuntimeError as error:
        raise InvalidInput(f"The home directory of {path[:40]!r} is unknown. Give an absolute path.") from error


def _not_a_database(begin: str) -> InvalidInput:
    # What follows the first colon may hold a password.
    return InvalidInput(
        "A database is a file path, :memory:, or a URL that starts with sqlite:///, postgresql:// or neo4j://, "
        f"not {begin[:40]!r}. Write ./ before a path that contains a colon."
    )


def build_store(url: str | Path, settings: Settings) -> Store:
    """Return the store of a database. Opens nothing."""
    url = database_url(url)
    scheme, _, rest = url.partition("://")
    if scheme == "postgresql":
        _refuse_key(settings)
        if find_spec("asyncpg") is None:
            raise MissingExtra("PostgreSQL needs one more package. Install it: pip install 'vmemo[postgres]'")
        from vmemo.stores.postgres.store import PostgresStore

        size, busy = settings.connections, settings.busy_timeout
        return PostgresStore(url, size=size, busy_seconds=busy, read_url=settings.read_url)
    if settings.read_url is not None:
        raise InvalidInput("A replica belongs to a PostgreSQL database. Unset read_url (VMEMO_READ_URL).")
    if scheme in _NEO4J:
        _refuse_key(settings)
        return _plugged_in(url, scheme, settings)
    from vmemo.stores.sqlite.store import SqliteStore

    if rest in ("", "/:memory:"):
        return SqliteStore(None, busy_seconds=settings.busy_timeout)
    if not rest.startswith("/"):
        raise InvalidInput("Write sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:.")
    return SqliteStore(Path(rest[1:]), busy_seconds=settings.busy_timeout, key=_key_source(settings))


def _key_source(settings: Settings) -> EncryptionKey | Path | None:
    key, file = settings.encryption_key, settings.encryption_key_file
    if key is not None and file is not None:
        raise InvalidInput(
            "Both an encryption key and a file with one are set. Unset VMEMO_ENCRYPTION_KEY or "
            "VMEMO_ENCRYPTION_KEY_FILE."
        )
    return file if key is None else key


def _refuse_key(settings: Settings) -> None:
    if settings.encryption_key is not None or settings.encryption_key_file is not None:
        raise InvalidInput(
            "An encryption key applies to SQLite files only. Encrypt the database server's storage, and unset "
            "encryption_key (VMEMO_ENCRYPTION_KEY, VMEMO_ENCRYPTION_KEY_FILE)."
        )


def _plugged_in(url: str, scheme: str, settings: Settings) -> Store:
    """Return a store of another distribution, which names its URL schemes under the entry point group."""
    found = entry_points(group=STORES, name=scheme.partition("+")[0])
    try:
        make = next(iter(found)).load()
    except (StopIteration, ImportError) as error:
        raise MissingExtra("Neo4j needs one more package. Install it: pip install 'vmemo[neo4j]'") from error
    return make(url, size=settings.connections, busy_seconds=settings.busy_timeout)
