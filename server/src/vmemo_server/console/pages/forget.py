"""Forget, with a preview of what is deleted."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, Response

from vmemo.errors import InvalidInput
from vmemo.models.requests import ForgetContentRequest
from vmemo_server.console.dependencies import AdminForm, WriteForm, WritePage
from vmemo_server.console.flash import redirect
from vmemo_server.console.render import is_fragment, path_to
from vmemo_server.console.route import ConsoleRoute

router = APIRouter(include_in_schema=False, prefix="/console/banks/{bank}/forget", route_class=ConsoleRoute)


@router.get("")
async def choose(page: WritePage, document: str = "", entity: str = "") -> Response:
    """Show the form, or ask about the named target; the preview of a large one takes long and is loaded after it."""
    messages = tuple(page.request.query_params.getlist("message"))
    if not (document.strip() or entity.strip() or messages):
        return page.render("forget.html", asked=False)
    request = _request(document=document, entity=entity, messages=messages)
    values = {"asked": True, "document": document, "entity": entity, "messages": messages}
    if is_fragment(page.request):
        return page.render("forget_confirm.html", preview=await page.memory.preview_forget(request), **values)
    found = await page.memory.lookup.entity(entity) if entity else None
    query = urlencode({"document": document, "entity": entity, "message": messages}, doseq=True)
    return page.render("forget.html", name=found.name if found else entity, query=query, **values)


@router.post("")
async def forget(form: WriteForm) -> Response:
    """Delete the target with everything derived from it."""
    sent = form.form
    request = _request(document=sent.text("document"), entity=sent.text("entity"), messages=sent.all("message"))
    return redirect(form.path(), "forgotten", await form.run(request))


@router.post("/bank")
async def forget_bank(form: AdminForm) -> Response:
    """Delete the whole bank; its name must be typed."""
    if form.form.text("name") != form.bank:
        raise InvalidInput("The name does not match. Nothing was deleted: type the bank's name exactly.")
    async with form.erasing():
        return redirect(path_to(), "forgotten", await form.memory.forget(bank=True))


def _request(*, document: str, entity: str, messages: tuple[str, ...]) -> ForgetContentRequest:
    values = {"document": document.strip() or None, "entity": entity.strip() or None, "messages": messages}
    return ForgetContentRequest.of(values)
