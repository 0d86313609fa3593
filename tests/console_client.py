"""Browsers without scripts that are signed in to the console."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx2

from live_server import LiveServer
from vmemo.models.records import Permission

BANK = "demo"


@dataclass
class ConsoleClient:
    """A browser without scripts that is signed in with a key."""

    http: httpx2.Client
    bank: str = BANK
    token: str = field(default="", init=False)
    """The CSRF token of this browser."""

    def path(self, page: str = "") -> str:
        """Return the address of a page of the bank."""
        return f"/console/banks/{quote(self.bank, safe='')}{page}"

    def get(self, page: str = "", **params: str) -> str:
        """Return a page of the bank, which must exist."""
        response = self.http.get(self.path(page), params=params or None)
        assert response.status_code == 200, (page, response.status_code, response.text[-400:])
        return response.text

    def submit(self, page: str, **fields: str) -> httpx2.Response:
        """Submit a form of the bank, and return the page that it leads to."""
        response = self.http.post(self.path(page), data={**fields, "csrf_token": self.token})
        if response.status_code == 303:
            return self.http.get(response.headers["location"])
        return response

    def fragment(self, page: str) -> httpx2.Response:
        """Return a part of a page, as htmx requests it."""
        return self.http.get(self.path(page), headers={"HX-Request": "true"})


@contextmanager
def signed_in(server: LiveServer, permission: Permission, *banks: str, bank: str = BANK) -> Generator[ConsoleClient]:
    """Sign in with a new key."""
    with server.http() as http:
        client = ConsoleClient(http, bank)
        data = {"key": server.key(permission, *banks), "csrf_token": form_token(http)}
        assert http.post("/console/sign-in", data=data).status_code == 303
        client.token = form_token(http)
        yield client


def form_token(http: httpx2.Client) -> str:
    """Return the CSRF token of the sign-in page."""
    return http.get("/console/sign-in").text.split('name="csrf_token" value="')[1].split('"')[0]
