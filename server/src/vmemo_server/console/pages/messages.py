"""Pages of messages and episodes, and forget, with a preview of what is deleted."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import Response

from vmemo.errors import InvalidInput, NotFound
from vmemo.models import EntityId, EpisodeId, MessageId
from vmemo.models.records import Name
from vmemo.models.requests import ForgetContentRequest
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo_server.console.dependencies import AdminForm, ReadPage, SearchText, WriteForm, WritePage
from vmemo_server.console.render import is_fragment, path_to, redirect, search_words
from vmemo_server.console.route import console_router

router = console_router("/banks/{bank}")
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
    found = await page.store.messages(page.bank, select)
    more = urlencode({"q": q, "document": document, "after": found[PAGE - 1].id}) if len(found) > PAGE else None
    template = "messages_rows.html" if is_fragment(page.request) else "messages.html"
    return page.render(template, messages=found[:PAGE], more=more, q=q, document=document, words=words)


@router.get("/messages/{message}")
async def message(page: ReadPage, message: Name) -> Response:
    """Show one message, its episode and the facts that it states."""
    found = await page.store.messages(page.bank, MessageSelect(ids=[MessageId(message)]))
    if not found:
        raise NotFound(f"There is no message {message!r:.80} in this bank.")
    return page.render(
        "message.html",
        message=found[0],
        episodes=await page.store.episodes(page.bank, EpisodeSelect(messages=[found[0].id])),
        facts=await page.store.facts(page.bank, FactSelect(messages=[found[0].id], limit=200)),
    )


@router.get("/episodes")
async def episodes(page: ReadPage, after: str = "") -> Response:
    """List episodes by their end, the last one first."""
    select = EpisodeSelect(after=EpisodeId(after) if after else None, last_first=True, limit=PAGE + 1)
    found = await page.store.episodes(page.bank, select)
    more = found[PAGE - 1].id if len(found) > PAGE else None
    template = "episodes_rows.html" if is_fragment(page.request) else "episodes.html"
    return page.render(template, episodes=found[:PAGE], more=more)


@router.get("/episodes/{episode}")
async def episode(page: ReadPage, episode: Name) -> Response:
    """Show one episode: its narrative, messages and facts."""
    found = await page.store.episodes(page.bank, EpisodeSelect(ids=[EpisodeId(episode)]))
    if not found:
        raise NotFound(f"There is no episode {episode!r:.80} in this bank.")
    return page.render(
        "episode.html",
        episode=found[0],
        messages=await page.store.messages(page.bank, MessageSelect(ids=found[0].messages[:200])),
        facts=await page.store.facts(page.bank, FactSelect(episode=found[0].id, limit=200)),
    )


@router.get("/forget")
async def choose(page: WritePage, document: str = "", entity: str = "") -> Response:
    """Show the form, or ask about the named target; the preview of a large one takes long and is loaded after it."""
    messages = tuple(page.request.query_params.getlist("message"))
    if not (document.strip() or entity.strip() or messages):
        return page.render("forget.html", asked=False)
    request = _request(document=document, entity=entity, messages=messages)
    values = {"asked": True, "document": document, "entity": entity, "messages": messages}
    if is_fragment(page.request):
        return page.render("forget_confirm.html", preview=await page.memory.preview_forget(request), **values)
    found = first_of(await page.store.entities(page.bank, EntitySelect(ids=[EntityId(entity)]))) if entity else None
    query = urlencode({"document": document, "entity": entity, "message": messages}, doseq=True)
    return page.render("forget.html", name=found.name if found else entity, query=query, **values)


@router.post("/forget")
async def forget(form: WriteForm) -> Response:
    """Delete the target with everything derived from it."""
    sent = form.form
    request = _request(document=sent.text("document"), entity=sent.text("entity"), messages=sent.all("message"))
    return redirect(form.path(), "forgotten", await form.run(request))


@router.post("/forget/bank")
async def forget_bank(form: AdminForm) -> Response:
    """Delete the whole bank; its name must be typed."""
    if form.form.text("name") != form.bank:
        raise InvalidInput("The name does not match. Nothing was deleted: type the bank's name exactly.")
    async with form.erasing():
        return redirect(path_to(), "forgotten", await form.memory.forget(bank=True))


def _request(*, document: str, entity: str, messages: tuple[str, ...]) -> ForgetContentRequest:
    values = {"document": document.strip() or None, "entity": entity.strip() or None, "messages": messages}
    return ForgetContentRequest.of(values)
