"""The facts of messages that this process derived lately, for the requests that waited meanwhile."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock

from vmemo.models import BankId, FactId
from vmemo.models.changes import Changes

MOST = 4096
"""Messages whose facts are kept."""


class DerivedMessages:
    """Concurrent retains of a bank share one derivation; each of the others finds the facts of its messages here."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._facts: OrderedDict[tuple[BankId, str], tuple[FactId, ...]] = OrderedDict()

    def add(self, changes: Changes) -> None:
        """Add the messages of a committed batch, with their new facts and the known facts that they repeat."""
        found: dict[str, dict[FactId, None]] = {id: {} for id in changes.pending}
        stated = [(item.fact.id, item.fact.messages) for item in changes.facts]
        for fact, messages in (*stated, *((each.fact, each.messages) for each in changes.sources)):
            for id in messages:
                found.setdefault(id, {})[fact] = None
        with self._lock:
            self._facts.update({(changes.bank, id): tuple(found[id]) for id in changes.pending})
            while len(self._facts) > MOST:
                self._facts.popitem(last=False)

    def drop(self, bank: BankId, messages: Iterable[str]) -> None:
        """Drop messages that are about to be derived, again if they were forgotten or queued meanwhile."""
        with self._lock:
            for id in messages:
                self._facts.pop((bank, id), None)

    def facts_of(self, bank: BankId, messages: Sequence[str]) -> tuple[FactId, ...] | None:
        """Return the facts of messages; None unless all of these messages were derived lately."""
        with self._lock:
            found = [self._facts.get((bank, id)) for id in messages]
        known = [facts for facts in found if facts is not None]
        if not messages or len(known) < len(messages):
            return None
        return tuple(dict.fromkeys(fact for facts in known for fact in facts))
