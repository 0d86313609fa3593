"""What a running server holds, and who is let in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated

from fastapi import Depends, Header, Request, Response, Security
from fastapi.security import APIKeyHeader, HTTPBearer

from vmemo import Memory
from vmemo.auth.service import AuthService
from vmemo.errors import InvalidInput, NotFound
from vmemo.models.auth import ApiKey, Interface, Permission
from vmemo.server.limits import Limits, Rates
from vmemo.server.problems import Refused

_REPEATED = "Idempotent-Replayed"


@dataclass(eq=False)
class House:
    """One memory behind a door.

    `keyless` lets everybody in as long as no key was ever made; that is for servers that only this machine reaches.
    """

    memory: Memory
    keyless: bool
    limits: Limits = field(default_factory=Limits)
    rates: Rates = field(init=False)
    _keyed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.rates = Rates(self.limits)

    @property
    def gate(self) -> AuthService:
        """Keys and records."""
        return self.memory.gate

    async def guest(self, secret: str | None) -> Guest:
        """Who comes with this secret; refuses one that opens nothing, and one that comes too often."""
        key = None if secret is None else await self.gate.key(secret)
        if key is None and (secret is not None or not await self._open()):
            told = {"WWW-Authenticate": "Bearer"}
            raise Refused(401, "NoKey", "A key is needed: send Authorization: Bearer vmemo_…", told)
        wait = self.rates.wait(None if key is None else key.id)
        if wait > 0:
            again = {"Retry-After": str(int(wait) + 1)}
            raise Refused(429, "TooOften", f"Too many requests; the next one passes in {wait:.1f} seconds.", again)
        return Guest(self, key)

    async def _open(self) -> bool:
        """Whether nobody is asked for a key. Keys are never deleted, so that a door which asks once asks for ever."""
        self._keyed = self._keyed or not self.keyless or bool(await self.gate.keys())
        return not self._keyed


@dataclass(frozen=True)
class Guest:
    """Whoever sent a request: the owner of a key, or anybody where no key is asked for."""

    house: House
    key: ApiKey | None

    @property
    def name(self) -> str:
        """The key's id, or a dash."""
        return "-" if self.key is None else self.key.id

    def may(self, right: Permission, bank: str | None = None) -> bool:
        """Whether the guest may do this to a bank, or to the whole database where none is named."""
        if self.key is None:
            return True
        return self.key.allows(right) and (self.key.everywhere if bank is None else self.key.reaches(bank))

    def demand(self, right: Permission, bank: str | None = None) -> None:
        """Refuse what the guest may not do; whether the bank exists is not told, for it was not looked up."""
        if not self.may(right, bank):
            where = "the whole database" if bank is None else "this bank"
            raise Refused(403, "NotAllowed", f"This key does not have the right to {right} {where}.")

    async def visit(self, bank: str, right: Permission, *, creates: bool = False) -> Visit:
        """The bank, if the guest may; one that is not there is refused, unless the verb makes it."""
        self.demand(right, bank)
        memory = self.house.memory.bank(bank)
        if not creates and not await memory.exists():
            raise NotFound(f"There is no bank {bank!r:.80} here.")
        return Visit(self, bank, memory)


@dataclass(frozen=True)
class Visit:
    """A guest in a bank."""

    guest: Guest
    bank: str
    memory: Memory

    async def once(self, request: Request, token: str | None, run: Callable[[], Awaitable[Response]]) -> Response:
        """Answer a write; repeated with the same Idempotency-Key it is answered as before, and not done again."""
        if token is None:
            return await run()
        gate, owner = self.guest.house.gate, self.guest.name
        known = await gate.begin(owner, token, await _fingerprint(request), bank=self.bank)
        if known is not None:
            return _again(known.fingerprint == await _fingerprint(request), known.status, known.body)
        try:
            response = await run()
        except BaseException:
            await gate.drop(owner, token)
            raise
        await gate.end(owner, token, response.status_code, bytes(response.body).decode("utf-8"))
        return response


def _again(same: bool, status: int | None, body: str) -> Response:
    if not same:
        raise Refused(422, "KeyReused", "This Idempotency-Key was used for another request; take a new one.")
    if status is None:
        raise Refused(409, "InProgress", "The request with this Idempotency-Key is still being worked on.")
    return Response(body, status, {_REPEATED: "true"}, "application/json")


async def _fingerprint(request: Request) -> str:
    """What makes two requests the same."""
    return sha256(f"{request.method} {request.url.path}\n".encode() + await request.body()).hexdigest()


def secret_of(request: Request) -> str | None:
    """The secret that a request carries."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    if scheme:
        raise Refused(401, "NoKey", "A key is sent as Authorization: Bearer vmemo_…", {"WWW-Authenticate": "Bearer"})
    return request.headers.get("x-api-key") or None


_BEARER = HTTPBearer(
    scheme_name="bearer",
    description="A key made with `vmemo keys create`; a server for one machine alone asks for none until one is made.",
    auto_error=False,
)
_HEADER = APIKeyHeader(
    name="X-Api-Key", scheme_name="header", description="The same key, sent plainly.", auto_error=False
)


async def guest(request: Request) -> Guest:
    """Who sent this request."""
    house: House = request.app.state.house
    found = await house.guest(secret_of(request))
    request.state.guest = found
    return found


async def _described(
    found: Annotated[Guest, Depends(guest)],
    _bearer: Annotated[object, Security(_BEARER)],
    _header: Annotated[object, Security(_HEADER)],
) -> Guest:
    """The same, for those who read the server's description."""
    return found


AnyGuest = Annotated[Guest, Depends(_described)]


def entering(
    right: Permission, *, creates: bool = False, door: Interface = "rest"
) -> Callable[[Request, AnyGuest, str], Awaitable[Visit]]:
    """A dependency: the bank that a path names, for a guest who may do this to it. Writes are noted with their end."""

    async def enter(request: Request, guest: AnyGuest, bank: str) -> Visit:
        request.state.door, request.state.bank = door, bank
        visit = await guest.visit(bank, right, creates=creates)
        if right != "read":
            request.state.writes = (door, bank)
        return visit

    return enter


Reading = Annotated[Visit, Depends(entering("read"))]
Writing = Annotated[Visit, Depends(entering("write"))]
Making = Annotated[Visit, Depends(entering("write", creates=True))]
Ruling = Annotated[Visit, Depends(entering("admin"))]
Founding = Annotated[Visit, Depends(entering("admin", creates=True))]


async def _ruler(request: Request, guest: AnyGuest) -> Guest:
    guest.demand("admin")
    if request.method not in ("GET", "HEAD"):
        request.state.writes = ("rest", None)
    return guest


Ruler = Annotated[Guest, Depends(_ruler)]
"""A guest with every right to the whole database."""


def _token(
    idempotency_key: Annotated[str | None, Header(max_length=255, description="Repeats are done once.")] = None,
) -> str | None:
    if idempotency_key is not None and not idempotency_key.strip():
        raise InvalidInput("An Idempotency-Key must not be blank.")
    return idempotency_key


Token = Annotated[str | None, Depends(_token)]
