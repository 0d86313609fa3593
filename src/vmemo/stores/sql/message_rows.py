"""Rows of messages and episodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import BigInteger, Connection, bindparam, delete, select, update

from vmemo.models import (
    Episode,
    Message,
    MessageId,
    utc_now,
)
from vmemo.models.changes import Changes, MessageFailure
from vmemo.stores.search import SearchIndex
from vmemo.stores.sql import statements
from vmemo.stores.sql.schema import (
    EPISODE,
    episode_messages,
    episodes,
    messages,
    sources,
)
from vmemo.stores.sql.statements import (
    Seqs,
    Values,
    among,
    insert_cells,
    insert_rows,
    later,
    listed,
    number_of,
    row_values,
    save_rows,
    seqs_of,
)
from vmemo.stores.values import (
    UNPROCESSED,
    WORDLESS,
    micros,
    storable_error,
    unstored,
)

_OF_BANK = messages.c.bank == bindparam("number")
_KNOWN_IDS = select(messages.c.id).where(_OF_BANK, among(messages.c.id, later("ids")))

_KNOWN_KEYS = select(messages.c.document, messages.c.key).where(
    _OF_BANK, among(messages.c.document, later("documents")), among(messages.c.key, later("keys"))
)


def append(connection: Connection, bank: int, new: Sequence[Message]) -> list[tuple[int, Message]]:
    """Insert messages that are not stored yet; return those inserted with their numbers."""
    fresh = unstored(new, _known(connection, bank, new))
    if not fresh:
        return []
    seqs = insert_rows(connection, messages, [_message_values(bank, message) for message in fresh])
    return [(seqs[message.id], message) for message in fresh]


def _message_values(bank: int, message: Message) -> Values:
    failed = message.error is not None
    return row_values(
        messages, bank, message, attempts=int(failed), failed_at=micros(message.recorded_at) if failed else None
    )


def _known(connection: Connection, bank: int, new: Sequence[Message]) -> set[object]:
    """Return the ids, and pairs of document and key, of these messages that are stored already."""
    ids = listed([message.id for message in new])
    known: set[object] = {row.id for row in connection.execute(_KNOWN_IDS, {"number": bank, "ids": ids}).all()}
    keys = [message.key for message in new if message.key]
    if keys:
        documents = {message.document for message in new if message.document}
        wanted = {"number": bank, "documents": listed(documents), "keys": listed(keys)}
        known.update((row.document, row.key) for row in connection.execute(_KNOWN_KEYS, wanted).all())
    return known


def record_failure(connection: Connection, bank: int, failure: MessageFailure) -> None:
    """Note an error on messages that are still pending."""
    waiting = messages.c.bank == bank, among(messages.c.id, failure.messages), messages.c.state.in_(UNPROCESSED)
    noted = {
        "attempts": messages.c.attempts + 1,
        "error": storable_error(failure.error),
        "failed_at": micros(utc_now()),
    }
    connection.execute(update(messages).where(*waiting).values(noted))


def any_pending(connection: Connection, bank: int, documents: Sequence[str | None]) -> bool:
    """Return True if one of the documents has a pending message; None is the messages without a document."""
    if not documents:
        return False
    named = among(messages.c.document, [document for document in documents if document is not None])
    inside = named | messages.c.document.is_(None) if None in documents else named
    waiting = select(messages.c.seq).where(messages.c.bank == bank, messages.c.state == "pending", inside)
    return connection.execute(waiting.limit(1)).first() is not None


_WAITING = update(messages).where(
    messages.c.bank == bindparam("of_bank", type_=BigInteger), among(messages.c.id, later("ids"))
)

_GROUPED = _WAITING.where(messages.c.state == "pending")
_PROCESSED = _WAITING.where((messages.c.state == "pending") | (messages.c.state == "grouped"))


def claim(connection: Connection, bank: int, changes: Changes) -> bool:
    """Give pending messages their new state; return False if one of them is no longer pending."""
    if not changes.pending:
        return True
    grouped = changes.becomes == "grouped"
    # A message that is only grouped keeps the note of why it could not be processed.
    new_state = {"state": changes.becomes} if grouped else {"state": changes.becomes, "error": None, "failed_at": None}
    waiting = {"of_bank": bank, "ids": listed(changes.pending)}
    claimed = connection.execute(_GROUPED if grouped else _PROCESSED, {**waiting, **new_state}).rowcount
    if claimed != len(changes.pending):
        return False
    if changes.unrepeated:
        without_facts = messages.c.bank == bank, among(messages.c.id, changes.unrepeated)
        connection.execute(update(messages).where(*without_facts).values(state="extracted"))
    return True


def delete_messages(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Delete messages. The facts and episodes that refer to them are deleted before."""
    numbers = list(seqs_of(connection, messages, bank, ids).values())
    if numbers:
        index.drop_messages(connection, bank, numbers)
        connection.execute(delete(messages).where(statements.by_numbers(messages, bank, numbers)))


def requeue(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Let messages wait to be processed again; their own words are searched until facts repeat them."""
    if not ids:
        return
    found = messages.c.bank == bank, among(messages.c.id, ids)
    repeated = select(messages.c.seq, messages.c.content).where(*found, messages.c.state == "derived")
    index.add_words(connection, bank, [(seq, content) for seq, content in connection.execute(repeated).all()])
    processed = messages.c.state.not_in(("raw", "curated"))
    connection.execute(update(messages).where(*found, processed).values(state="pending"))


def curate(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Let messages be neither processed again nor searched by their words."""
    if not ids:
        return
    found = messages.c.bank == bank, among(messages.c.id, ids)
    worded = select(messages.c.id).where(*found, messages.c.state.not_in(WORDLESS))
    index.drop_words(connection, bank, [MessageId(id) for id in connection.execute(worded).scalars()])
    connection.execute(update(messages).where(*found).values(state="curated", error=None, failed_at=None))


_WITHOUT_MESSAGES = delete(episode_messages).where(
    episode_messages.c.bank == bindparam("of_bank", type_=BigInteger),
    among(episode_messages.c.episode, later("episodes")),
)


def save_episodes(connection: Connection, bank: int, new: Sequence[Episode]) -> Seqs:
    """Insert or replace episodes and the messages they hold."""
    known = seqs_of(connection, episodes, bank, (episode.id for episode in new))
    seqs = save_rows(connection, episodes, [row_values(episodes, bank, episode) for episode in new], known)
    members = seqs_of(connection, messages, bank, (id for episode in new for id in episode.messages))
    if known:
        connection.execute(_WITHOUT_MESSAGES, {"of_bank": bank, "episodes": listed(known.values())})
    rows = [(bank, seqs[episode.id], number_of(members, "message", id)) for episode in new for id in episode.messages]
    insert_cells(connection, episode_messages, ("bank", "episode", "message"), rows)
    return seqs


def dissolve(connection: Connection, bank: int, broken: Iterable[int]) -> set[int]:
    """Delete episodes; an episode that followed one follows its predecessor. Return the numbers of their facts."""
    gone = sorted(broken)
    if not gone:
        return set()
    for seq in gone:
        deleted = select(episodes.c.id, episodes.c.previous).where(statements.by_number(episodes, bank, seq))
        row = connection.execute(deleted).one()
        following = update(episodes).where(episodes.c.bank == bank, episodes.c.previous == row.id)
        connection.execute(following.values(previous=row.previous))
    stating = sources.c.bank == bank, sources.c.kind == EPISODE, among(sources.c.source, gone)
    found = set(connection.execute(select(sources.c.fact).where(*stating)).scalars())
    connection.execute(delete(sources).where(*stating))
    inside = episode_messages.c.bank == bank, among(episode_messages.c.episode, gone)
    connection.execute(delete(episode_messages).where(*inside))
    connection.execute(delete(episodes).where(statements.by_numbers(episodes, bank, gone)))
    return found
