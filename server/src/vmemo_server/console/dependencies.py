"""FastAPI dependencies of the console: the principal of a session, its banks, and submitted forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from vmemo.models.records import Permission
from vmemo_server.auth import Principal
from vmemo_server.console.render import bank_path, render
from vmemo_server.console.session import Form, browser_token, checked_form
from vmemo_server.dependencies import AppState, RequestSession, begin_write, open_session


async def _signed_in(request: Request) -> Principal:
    """Return the principal of the browser's session; raise Unauthenticated if there is none and a key is required."""
    principal = await AppState.of(request).access.authenticate_session(browser_token(request))
    request.state.principal, request.state.interface = principal, "console"
    return principal


SignedIn = Annotated[Principal, Depends(_signed_in)]
SearchText = Annotated[str, Query(max_length=200)]
"""Words of a search, separated by spaces."""


@dataclass(frozen=True)
class BankPage(RequestSession):
    """A page of one bank: its request, and the form that was submitted."""

    request: Request
    form: Form = field(default_factory=lambda: Form({}))

    @property
    def can_write(self) -> bool:
        """True if the principal may change the bank."""
        return self.principal.allows("write", self.bank)

    def path(self, *parts: str) -> str:
        """Return the path of a page of this bank."""
        return bank_path(self.bank, *parts)

    def render(self, template: str, /, **values: Any) -> Response:
        common = {
            "bank": self.bank,
            "can_write": self.can_write,
            "can_admin": self.principal.allows("admin", self.bank),
        }
        return render(self.request, template, {**common, **values})


def _page(permission: Permission) -> Callable[[Request, SignedIn, str], Awaitable[BankPage]]:
    async def dependency(request: Request, principal: SignedIn, bank: str) -> BankPage:
        session = await open_session(request, principal, bank, permission, interface="console")
        return BankPage(**vars(session), request=request)

    return dependency


def _form(permission: Permission, *, create: bool = False) -> Callable[[Request, SignedIn, str], Awaitable[BankPage]]:
    async def dependency(request: Request, principal: SignedIn, bank: str) -> BankPage:
        # Before the body is read.
        principal.require(permission, bank)
        form = await checked_form(request)
        session = await open_session(request, principal, bank, permission, create=create, interface="console")
        return BankPage(**vars(session), request=request, form=form)

    return dependency


ReadPage = Annotated[BankPage, Depends(_page("read"))]
WritePage = Annotated[BankPage, Depends(_page("write"))]
"""A page that prepares a change, such as a preview of what is deleted."""
ReadForm = Annotated[BankPage, Depends(_form("read"))]
"""A form that changes nothing."""
WriteForm = Annotated[BankPage, Depends(_form("write"))]
AdminForm = Annotated[BankPage, Depends(_form("admin"))]


async def _admin(principal: SignedIn) -> Principal:
    principal.require("admin")
    return principal


AdminPage = Annotated[Principal, Depends(_admin)]
"""A page for administrators of every bank."""


async def _server_form(request: Request, principal: SignedIn) -> Form:
    principal.require("admin")
    form = await checked_form(request)
    await begin_write(request, "console", None)
    return form


ServerForm = Annotated[Form, Depends(_server_form)]
"""A form about the whole server, for administrators of every bank."""
