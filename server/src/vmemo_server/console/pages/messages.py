"""Messages and episodes."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, Response

from vmemo.errors import NotFound
from vmemo.models import EpisodeId, MessageId
from vmemo.models.base import Name
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect
from vmemo_server.console.dependencies import ReadPage, SearchText
from vmemo_server.console.render import is_fragment, search_words
from vmemo_server.console.route import ConsoleRoute

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}", route_class=ConsoleRoute)
PAGE = 50


@router.get("/messages")
async def messages(page: ReadPage, q: SearchText = "", document: str = "", after: str = "") -> Response:
    """List messages, those that were stored last first."""
    words = search_words(q)
    select = MessageSelect(
        containing=words,
        document=document.strip() or None,
        after=MessageId(after) if after else None,
        last_first=True,
        limit=PAGE + 1,
    )
    found = await page.memory.lookup.select_messages(select)
    more = urlencode({"q": q, "document": document, "after": found[PAGE - 1].id}) if len(found) > PAGE else None
    template = "messages_rows.html" if is_fragment(page.request) else "messages.html"
    return page.render(template, messages=found[:PAGE], more=more, q=q, document=document, words=words)


@router.get("/messages/{message}")
async def message(page: ReadPage, message: Name) -> Response:
    """Show one message, its episode and the facts that it states."""
    lookup = page.memory.lookup
    found = await lookup.messages([MessageId(message)])
    if not found:
        raise NotFound(f"There is no message {message!r:.80} in this bank.")
    return page.render(
        "message.html",
        message=found[0],
        episodes=await lookup.select_episodes(EpisodeSelect(messages=[found[0].id])),
        facts=await lookup.select_facts(FactSelect(messages=[found[0].id], limit=200)),
    )


@router.get("/episodes")
async def episodes(page: ReadPage, after: str = "") -> Response:
    """List episodes by their end, the last one first."""
    select = EpisodeSelect(after=EpisodeId(after) if after else None, last_first=True, limit=PAGE + 1)
    found = await page.memory.lookup.select_episodes(select)
    more = found[PAGE - 1].id if len(found) > PAGE else None
    template = "episodes_rows.html" if is_fragment(page.request) else "episodes.html"
    return page.render(template, episodes=found[:PAGE], more=more)


@router.get("/episodes/{episode}")
async def episode(page: ReadPage, episode: Name) -> Response:
    """Show one episode: its narrative, messages and facts."""
    lookup = page.memory.lookup
    found = await lookup.select_episodes(EpisodeSelect(ids=[EpisodeId(episode)]))
    if not found:
        raise NotFound(f"There is no episode {episode!r:.80} in this bank.")
    return page.render(
        "episode.html",
        episode=found[0],
        messages=await lookup.messages(found[0].messages[:200]),
        facts=await lookup.select_facts(FactSelect(episode=found[0].id, limit=200)),
    )
