"""The Live page of a bank: the latest requests of all interfaces in this process, kept in memory only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import Response

from vmemo import Hit, redact_secrets
from vmemo.models import BankId, requests as r, utc_now
from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Recalled
from vmemo.models.records import counted, shortened
from vmemo.models.results import Answer, Retained
from vmemo_server.auth import Principal
from vmemo_server.console.dependencies import BankPage, ReadPage
from vmemo_server.console.route import console_router
from vmemo_server.dependencies import AppState

router = console_router("/banks/{bank}/live")
LATEST = 200
"""Requests that a process remembers, of all banks together."""
SHOWN = 50
HITS = 5
"""Hits of a request that are remembered."""
TEXT = 300
"""Characters of a text that are remembered."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A record that a request returned."""

    page: str
    id: str
    text: str


@dataclass(frozen=True, kw_only=True)
class LiveRequest:
    """A request that was answered; one that searched several banks has an entry for each."""

    number: int
    at: datetime = field(default_factory=utc_now)
    key: str | None
    bank: BankId
    verb: str
    text: str
    hits: tuple[Shown, ...]
    outcome: str
    tokens: int
    milliseconds: float


class LiveFeed:
    """The latest requests of a server process."""

    def __init__(self) -> None:
        self._latest: deque[LiveRequest] = deque(maxlen=LATEST)
        self._numbers = count(1)

    def note(self, principal: Principal, bank: BankId, request: r.Returns[Any], result: object, seconds: float) -> None:
        """Remember a recall, a context, an answer or a retain."""
        banks = request.banks if isinstance(request, r.SeveralBanks) and request.banks else (bank,)
        for each in banks:
            for verb, text, hits, outcome, tokens in _described(request, result, BankId(each)):
                self._latest.append(
                    LiveRequest(
                        number=next(self._numbers),
                        key=principal.key_id,
                        bank=BankId(each),
                        verb=verb,
                        # What is stored was redacted already.
                        text=shortened(redact_secrets(text[: 10 * TEXT]), TEXT),
                        hits=tuple(hits[:HITS]),
                        outcome=outcome,
                        tokens=tokens,
                        milliseconds=1000 * seconds,
                    )
                )

    def of(self, bank: str) -> list[LiveRequest]:
        """Return the requests of a bank, the latest first."""
        return [each for each in reversed(self._latest) if each.bank == bank]

    async def erased(self, bank: str) -> None:
        """Drop the requests of a bank, whose text may have been deleted."""
        self._latest = deque((each for each in self._latest if each.bank != bank), LATEST)


_Described = tuple[str, str, Sequence[Shown], str, int]


def _described(request: r.Returns[Any], result: object, bank: BankId) -> Iterator[_Described]:
    """Yield the verb, text, hits, outcome and tokens of a request that is shown."""
    match request, result:
        case ((r.RecallRequest() | r.RetrieveRequest()), Recalled()):
            hits = [hit for hit in result.hits if hit.bank == bank]
            verb = "recall" if isinstance(request, r.RecallRequest) else "retrieve"
            yield verb, request.query, _hits(hits), counted(len(hits), "hit"), sum(hit.tokens for hit in hits)
        case r.ContextRequest(), PromptContext():
            hits = [hit for hit in result.relevant if hit.bank == bank]
            yield "context", request.query or "", _hits(hits), counted(len(hits), "relevant fact"), result.tokens
        case r.ReflectRequest(), Answer():
            cited = [Shown(page="facts", id=each.fact, text=shortened(each.text, TEXT)) for each in result.citations]
            tokens = result.usage.input_tokens + result.usage.output_tokens
            yield "reflect", request.query, cited, counted(len(cited), "citation"), tokens
        case r.RetainRequest(), Retained():
            said = [message.content for message in request.texts]
            stored = [Shown(page="facts", id=id, text=f"fact {id[:8]}") for id in result.derived]
            outcome = f"{counted(len(result.stored), 'message')}, {counted(len(result.derived), 'fact')}"
            yield "retain", said[0] if said else "", stored, outcome, 0
        case _:
            pass


def _hits(hits: Sequence[Hit]) -> list[Shown]:
    first = [(hit, "messages" if hit.verbatim else "facts") for hit in hits[:HITS]]
    return [Shown(page=page, id=hit.id, text=shortened(hit.text, TEXT)) for hit, page in first]


_feeds: WeakKeyDictionary[AppState, LiveFeed] = WeakKeyDictionary()


def remember(state: AppState) -> None:
    """Remember the requests of a server."""
    feed = LiveFeed()
    state.access.listeners.append(feed.note)
    state.auth.on_erased.append(feed.erased)
    _feeds[state] = feed


@router.get("")
async def live(page: ReadPage, paused: bool = False) -> Response:
    """Show the latest requests; the list renews itself unless it is paused."""
    return page.render("live.html", paused=paused, **await _values(page))


@router.get("/list")
async def live_list(page: ReadPage, after: int = 0) -> Response:
    """Return the list if there is a later request than the given one."""
    values = await _values(page)
    if values["last"] == after:
        return Response(status_code=204)
    return page.render("live_list.html", paused=False, **values)


async def _values(page: BankPage) -> dict[str, Any]:
    found = _feeds[AppState.of(page.request)].of(page.bank)[:SHOWN]
    names = {key.id: key.name for key in await page.state.keys()}
    return {"requests": found, "names": names, "last": found[0].number if found else 0, "latest": LATEST}
