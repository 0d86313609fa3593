"""A request with an idempotency key takes effect once, however its process ends."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, JsonValue
from test_idempotency import BlockingEmbedder

from vmemo import Memory, StoreBusy
from vmemo.models import Profile, requests as r
from vmemo.models.auth import ClaimedRequest, IdempotencyClaim
from vmemo.models.request_fields import Returns
from vmemo.models.results import Answer, Forgotten, Status
from vmemo.testing import FakeLLM, HashEmbedder, ReceivedRequest
from vmemo_server.auth.errors import RequestInProgress
from vmemo_server.auth.idempotency import IdempotentRequest, StoredResponse, run_once
from vmemo_server.auth.service import CLAIM_LEASE, AuthService

REQUEST = IdempotentRequest(owner="-", key="once", fingerprint="same", bank="default")
RETAIN = r.RetainRequest.of({"messages": [{"content": "I have a grey cat."}]})
MAKE_TWO = ["Anna met Robert Hale.", "Robert Hale lives in Oslo."]


def response_to(result: object) -> tuple[int, str]:
    """Return a result as a response."""
    return 200, result.model_dump_json() if isinstance(result, BaseModel) else str(result)


def executing(
    memory: Memory, request: Returns[object] = RETAIN, then: Exception | None = None
) -> Callable[[IdempotencyClaim], Awaitable[StoredResponse]]:
    """Return a function that executes a request for a claim, and then fails."""

    async def execute(claim: IdempotencyClaim) -> StoredResponse:
        claimed = ClaimedRequest(claim=claim, respond=response_to)
        result = await memory.run_once(request, claimed)
        if then is not None:
            raise then
        return StoredResponse(*response_to(result))

    return execute


async def contents(memory: Memory) -> list[str]:
    return [message.content for message in await memory.messages()]


async def claim(memory: Memory, holder: str) -> IdempotencyClaim:
    """Claim the key for a process that does not end its request."""
    claimed = IdempotencyClaim(owner=REQUEST.owner, key=REQUEST.key, holder=holder)
    assert (
        await AuthService(memory.store).claim_idempotency_key(claimed, REQUEST.fingerprint, bank=REQUEST.bank) is None
    )
    return claimed


def move_claim(url: str, seconds: float) -> None:
    """Move the last renewal of all claims in time."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE replies SET at = at + ?", [int(seconds * 1_000_000)])
    connection.close()


@asynccontextmanager
async def opened(url: str, embedder: HashEmbedder | None = None) -> AsyncGenerator[Memory]:
    async with Memory(url, embedder=embedder or HashEmbedder()) as memory:
        yield memory


def test_request_cancelled_after_its_effect_returns_the_stored_response(database: str) -> None:
    async def run() -> None:
        embedder = BlockingEmbedder()
        async with opened(database, embedder) as memory:
            first = asyncio.create_task(run_once(AuthService(memory.store), REQUEST, executing(memory)))
            await asyncio.to_thread(embedder.started.wait, 60)
            first.cancel()
            embedder.released.set()
            with pytest.raises(asyncio.CancelledError):
                await first
            (message,) = await memory.messages()
            again = await run_once(AuthService(memory.store), REQUEST, executing(memory))
            assert again.replayed
            assert f'"stored":["{message.id}"]' in again.body
            assert '"pending":1' in again.body
            assert await contents(memory) == ["I have a grey cat."]

    asyncio.run(run())


def test_request_killed_before_its_effect_runs_once_its_lease_ends(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            await claim(memory, "killed")
            with pytest.raises(RequestInProgress):
                await run_once(AuthService(memory.store), REQUEST, executing(memory))
            move_claim(database, -CLAIM_LEASE.total_seconds() - 1)
            assert not (await run_once(AuthService(memory.store), REQUEST, executing(memory))).replayed
            assert await contents(memory) == ["I have a grey cat."]

    asyncio.run(run())


def test_request_killed_after_its_effect_is_never_executed_again(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            await executing(memory)(await claim(memory, "killed"))
            with pytest.raises(RequestInProgress):
                await run_once(AuthService(memory.store), REQUEST, executing(memory))
            move_claim(database, -CLAIM_LEASE.total_seconds() - 1)
            assert (await run_once(AuthService(memory.store), REQUEST, executing(memory))).replayed
            assert await contents(memory) == ["I have a grey cat."]

    asyncio.run(run())


def test_process_that_lost_its_claim_writes_nothing(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            stalled = await claim(memory, "stalled")
            move_claim(database, -CLAIM_LEASE.total_seconds() - 1)
            await run_once(AuthService(memory.store), REQUEST, executing(memory))
            with pytest.raises(StoreBusy, match="took over the request"):
                await executing(memory)(stalled)
            assert await contents(memory) == ["I have a grey cat."]

    asyncio.run(run())


def test_postgresql_stores_the_response_with_the_effect_and_notices_a_lost_claim(
    lent_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with opened(lent_postgres_url) as memory:
            killed = await claim(memory, "killed")
            monkeypatch.setattr("vmemo_server.auth.service.CLAIM_LEASE", timedelta())
            await executing(memory)(await claim(memory, "other"))
            with pytest.raises(StoreBusy, match="took over the request"):
                await executing(memory)(killed)
            assert (await run_once(AuthService(memory.store), REQUEST, executing(memory))).replayed
            assert await contents(memory) == ["I have a grey cat."]

    asyncio.run(run())


def test_renewed_claim_is_not_taken_over(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            running = await claim(memory, "running")
            move_claim(database, -CLAIM_LEASE.total_seconds() - 1)
            await AuthService(memory.store).renew_idempotency_claim(running)
            with pytest.raises(RequestInProgress):
                await run_once(AuthService(memory.store), REQUEST, executing(memory))

    asyncio.run(run())


def test_claim_does_not_outlast_a_clock_that_was_set_back(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            await claim(memory, "killed")
            move_claim(database, 3600)
            assert not (await run_once(AuthService(memory.store), REQUEST, executing(memory))).replayed

    asyncio.run(run())


async def merge(memory: Memory) -> r.Request:
    await memory.retain(MAKE_TWO)
    anna, robert = [entity.id for entity in await memory.entities()][:2]
    return r.MergeEntitiesRequest(keep=anna, absorb=robert)


async def undo_merge(memory: Memory) -> r.Request:
    await memory.run(await merge(memory))  # pyright: ignore[reportArgumentType]
    return r.UndoMergeRequest(merge=(await memory.merges())[0].id)


async def background(memory: Memory) -> r.Request:
    return r.BackgroundRequest(snippet="I like tea.")


async def profile(memory: Memory) -> r.Request:
    return r.ProfileUpdate(profile=Profile(name="Mira"))


async def create(memory: Memory) -> r.Request:
    return r.CreateBankRequest(profile=Profile(name="Mira"))


async def forget(memory: Memory) -> r.Request:
    await memory.retain(MAKE_TWO)
    return r.ForgetContentRequest(messages=tuple(message.id for message in await memory.messages()))


async def delete(memory: Memory) -> r.Request:
    await memory.retain(MAKE_TWO)
    return r.ForgetRequest(bank=True)


async def one_fact(memory: Memory) -> str:
    await memory.retain(MAKE_TWO)
    return (await memory.facts())[0].id


async def update_fact(memory: Memory) -> r.Request:
    return r.UpdateFactRequest(fact=await one_fact(memory), text="Anna lives in Oslo.")


async def delete_fact(memory: Memory) -> r.Request:
    return r.DeleteFactRequest(fact=await one_fact(memory))


async def pin_fact(memory: Memory) -> r.Request:
    return r.PinFactRequest(fact=await one_fact(memory))


async def add_webhook(memory: Memory) -> r.Request:
    return r.AddWebhookRequest(url="https://app.example/hook")


async def delete_webhook(memory: Memory) -> r.Request:
    return r.DeleteWebhookRequest(webhook=(await memory.add_webhook("https://app.example/hook")).id)


async def retain(memory: Memory) -> r.Request:
    return RETAIN


@pytest.mark.parametrize(
    "make_request",
    [
        *(retain, forget, merge, undo_merge, profile, create, background, delete, update_fact, delete_fact, pin_fact),
        *(add_webhook, delete_webhook),
    ],
    ids=lambda each: each.__name__,
)
def test_effect_of_a_write_is_stored_with_its_response(
    make_request: Callable[[Memory], Awaitable[Returns[object]]], database: str
) -> None:
    async def run() -> None:
        llm = FakeLLM({"background": [{"background": "I like tea.", "replaced": []}]})
        uses_llm = make_request is background
        async with Memory(database, llm=llm if uses_llm else None, embedder=HashEmbedder()) as memory:
            request = await make_request(memory)
            with pytest.raises(RuntimeError, match="after the effect"):
                await run_once(
                    AuthService(memory.store), REQUEST, executing(memory, request, RuntimeError("after the effect"))
                )
            state = await memory.entities(), await memory.merges(), await memory.former_profiles()
            again = await run_once(
                AuthService(memory.store), REQUEST, executing(memory, request, AssertionError("executed twice"))
            )
            assert (again.status, again.replayed) == (200, True)
            assert (await memory.entities(), await memory.merges(), await memory.former_profiles()) == state
            assert await contents(memory) in ([], MAKE_TWO, MAKE_TWO[1:], ["I have a grey cat."])

    asyncio.run(run())


def judge(asked: ReceivedRequest) -> JsonValue:
    """Form an opinion on the first fact."""
    opinion: JsonValue = {"text": "I think tea is calming.", "confidence": 0.7, "facts": ["F1"], "instead_of": ""}
    empty: dict[str, JsonValue] = {"look_for": [], "steps": [], "found": True, "revised": []}
    return {**empty, "text": "Tea is calming [F1].", "opinions": [opinion]}


def test_opinion_of_a_reflection_is_stored_with_the_response(database: str) -> None:
    request = r.ReflectRequest(query="What do you think of tea?")

    async def run() -> None:
        async with opened(database) as memory:
            await memory.profile(Profile(bias=0.5))
            await memory.retain("Tea calms me.")
        async with Memory(database, llm=FakeLLM({"reflect": judge}), embedder=HashEmbedder()) as memory:
            with pytest.raises(RuntimeError, match="after the effect"):
                await run_once(
                    AuthService(memory.store), REQUEST, executing(memory, request, RuntimeError("after the effect"))
                )
            (opinion,) = await memory.opinions()
            again = await run_once(
                AuthService(memory.store), REQUEST, executing(memory, request, AssertionError("executed twice"))
            )
            assert again.replayed
            assert [formed.id for formed in Answer.model_validate_json(again.body).formed] == [opinion.id]
            assert len(await memory.opinions()) == 1

    asyncio.run(run())


def test_import_is_stored_with_its_response(url: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(url) as memory:
            await memory.retain(MAKE_TWO)
            await memory.export(tmp_path / "bank.jsonl")
            copy = memory.bank("copy")

            async def execute(claim: IdempotencyClaim) -> StoredResponse:
                claimed = ClaimedRequest(claim=claim, respond=response_to)
                await copy.completing(claimed).import_bank(tmp_path / "bank.jsonl")
                raise RuntimeError("after the effect")

            with pytest.raises(RuntimeError, match="after the effect"):
                await run_once(AuthService(memory.store), REQUEST, execute)
            again = await run_once(AuthService(memory.store), REQUEST, execute)
            assert again.replayed
            stored, status = Status.model_validate_json(again.body), await copy.status()
            assert (stored.bank, stored.messages, stored.facts) == ("copy", status.messages, status.facts)

    asyncio.run(run())


def test_response_stored_with_a_forget_does_not_claim_that_the_text_is_removed(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            await memory.retain(MAKE_TWO, document="talk")
            request = r.ForgetContentRequest(document="talk")
            await executing(memory, request)(await claim(memory, "killed"))
            move_claim(database, -CLAIM_LEASE.total_seconds() - 1)
            again = await run_once(AuthService(memory.store), REQUEST, executing(memory, request))
            assert Forgotten.model_validate_json(again.body).scrub_pending

    asyncio.run(run())
