"""A request with an idempotency key takes effect once, however its process ends."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel, JsonValue
from test_idempotency import BlockingEmbedder

from vmemo import InvalidInput, Memory, NotFound
from vmemo.models import Profile, requests as r
from vmemo.models.requests import Returns
from vmemo.models.results import Retained
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, ReceivedRequest
from vmemo_server.errors import RequestInProgress
from vmemo_server.idempotency import StoredResponse, retain_once, run_once
from vmemo_server.state import CLAIM_LEASE, IdempotentRequest, ServerState

RETAIN = r.RetainRequest.of({"messages": [{"content": "I have a grey cat."}]})
MAKE_TWO = ["Anna met Robert Hale.", "Robert Hale lives in Oslo."]


def sent() -> IdempotentRequest:
    """Return the request as one process receives it."""
    return IdempotentRequest(owner="-", key="once", fingerprint="same", bank="default")


async def execute(memory: Memory, request: Returns[object] = RETAIN) -> StoredResponse:
    """Execute a request as a route does."""
    result = await (
        retain_once(memory.run, request, sent()) if isinstance(request, r.RetainRequest) else memory.run(request)
    )
    return StoredResponse(200, result.model_dump_json() if isinstance(result, BaseModel) else str(result))


async def answer(memory: Memory, request: Returns[object] = RETAIN) -> StoredResponse:
    """Answer a request that was received with its idempotency key."""
    return await run_once(ServerState(memory.store), sent(), lambda: execute(memory, request))


async def contents(memory: Memory) -> list[str]:
    return [message.content for message in await memory.messages()]


async def claim(memory: Memory) -> IdempotentRequest:
    """Claim the key for a process that does not end its request."""
    request = sent()
    assert await ServerState(memory.store).claim(request) is None
    return request


def move_claim(url: str, seconds: float) -> None:
    """Move the last renewal of all claims in time."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE idempotent_responses SET at = at + ?", [int(seconds * 1_000_000)])
    connection.close()


def end_lease(url: str) -> None:
    move_claim(url, -CLAIM_LEASE.total_seconds() - 1)


@asynccontextmanager
async def opened(url: str, embedder: HashEmbedder | None = None) -> AsyncGenerator[Memory]:
    async with Memory(url, embedder=embedder or HashEmbedder()) as memory:
        yield memory


def test_request_cancelled_after_its_effect_reports_what_it_stored_when_repeated(database: str) -> None:
    async def run() -> None:
        embedder = BlockingEmbedder()
        async with opened(database, embedder) as memory:
            first = asyncio.create_task(answer(memory))
            await asyncio.to_thread(embedder.started.wait, 60)
            first.cancel()
            embedder.released.set()
            with pytest.raises(asyncio.CancelledError):
                await first
            (message,) = await memory.messages()
            again = Retained.model_validate_json((await answer(memory)).body)
            assert (again.stored, again.skipped) == ((message.id,), ())
            assert len(again.derived) == 1
            assert await contents(memory) == ["I have a grey cat."]

    asyncio.run(run())


def test_request_killed_before_its_effect_runs_once_its_lease_ends(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            await claim(memory)
            with pytest.raises(RequestInProgress):
                await answer(memory)
            end_lease(database)
            assert not (await answer(memory)).replayed
            assert (await answer(memory)).replayed
            assert await contents(memory) == ["I have a grey cat."]

    asyncio.run(run())


def test_request_killed_after_its_effect_stores_nothing_twice(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            await claim(memory)
            first = await execute(memory)
            with pytest.raises(RequestInProgress):
                await answer(memory)
            end_lease(database)
            again = await answer(memory)
            stored = [Retained.model_validate_json(each.body).stored for each in (first, again)]
            assert stored[0] == stored[1] == tuple(message.id for message in await memory.messages())
            assert await contents(memory) == ["I have a grey cat."]

    asyncio.run(run())


def test_process_that_lost_its_claim_stores_nothing_twice(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            stalled, state = await claim(memory), ServerState(memory.store)
            end_lease(database)
            first = await answer(memory)
            await execute(memory)
            await state.save_response(stalled, 200, "late")
            await state.release(stalled)
            assert await contents(memory) == ["I have a grey cat."]
            assert (await answer(memory)).body == first.body

    asyncio.run(run())


def test_renewed_claim_is_not_taken_over(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            running = await claim(memory)
            end_lease(database)
            await ServerState(memory.store).renew(running)
            with pytest.raises(RequestInProgress):
                await answer(memory)

    asyncio.run(run())


def test_claim_does_not_outlast_a_clock_that_was_set_back(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            await claim(memory)
            move_claim(database, 3600)
            assert not (await answer(memory)).replayed

    asyncio.run(run())


def test_two_requests_of_the_same_text_with_different_keys_are_both_stored(database: str) -> None:
    async def run() -> None:
        async with opened(database) as memory:
            for key in ("one", "two"):
                request = IdempotentRequest(owner="-", key=key, fingerprint="same", bank="default")
                await retain_once(memory.run, RETAIN, request)
            assert await contents(memory) == ["I have a grey cat."] * 2

    asyncio.run(run())


def test_postgresql_claims_saves_and_drops_responses(lent_postgres_url: str) -> None:
    async def run() -> None:
        async with opened(lent_postgres_url) as memory:
            state = ServerState(memory.store)
            running = await claim(memory)
            with pytest.raises(RequestInProgress):
                await answer(memory)
            await state.save_response(running, 201, "saved")
            assert await answer(memory) == StoredResponse(201, "saved", replayed=True)
            async with state.erasing("default"):
                assert not (await answer(memory)).replayed
            assert not (await answer(memory)).replayed
            key, secret = await state.create_key("agent", banks=["a*"])
            assert await state.find_key(secret) == key
            await asyncio.gather(*(ServerState(memory.store).open() for _ in range(5)))

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
    return r.AddWebhookRequest(id=sent().new_id(), url="https://app.example/hook")


async def delete_webhook(memory: Memory) -> r.Request:
    return r.DeleteWebhookRequest(webhook=(await memory.add_webhook("https://app.example/hook")).id)


async def retain(memory: Memory) -> r.Request:
    return RETAIN


REPEATED: dict[str, type[Exception]] = {
    "forget": NotFound,
    "merge": NotFound,
    "undo_merge": InvalidInput,
    "delete_fact": NotFound,
    "delete_webhook": NotFound,
}
"""Repetitions that find nothing to do any more, and their errors."""


@pytest.mark.parametrize(
    "make_request",
    [
        *(retain, forget, merge, undo_merge, profile, create, background, delete, update_fact, delete_fact, pin_fact),
        *(add_webhook, delete_webhook),
    ],
    ids=lambda each: each.__name__,
)
def test_write_of_a_process_that_was_killed_before_it_responded_changes_nothing_more_when_repeated(
    make_request: Callable[[Memory], Awaitable[Returns[object]]], database: str
) -> None:
    async def state_of(memory: Memory) -> object:
        return (
            [fact.model_dump(exclude={"accesses", "accessed_at"}) for fact in await memory.facts()],
            *(await memory.entities(), await memory.merges(), await memory.former_profiles()),
            *(await memory.webhooks(), await contents(memory)),
        )

    async def run() -> None:
        llm = FakeLLM({"background": [{"background": "I like tea.", "replaced": []}]})
        uses_llm = make_request is background
        async with Memory(database, llm=llm if uses_llm else None, embedder=HashEmbedder()) as memory:
            request = await make_request(memory)
            await claim(memory)
            await execute(memory, request)
            end_lease(database)
            before = await state_of(memory)
            if error := REPEATED.get(make_request.__name__):
                with pytest.raises(error):
                    await answer(memory, request)
            else:
                assert (await answer(memory, request)).status == 200
            assert await state_of(memory) == before

    asyncio.run(run())


def judge(asked: ReceivedRequest) -> JsonValue:
    """Form an opinion on the first fact."""
    opinion: JsonValue = {"text": "I think tea is calming.", "confidence": 0.7, "facts": ["F1"], "instead_of": ""}
    empty: dict[str, JsonValue] = {"calls": [], "steps": [], "found": True, "revised": []}
    return {**empty, "text": "Tea is calming [F1].", "opinions": [opinion]}


def test_opinion_of_a_repeated_reflection_is_stored_once(database: str) -> None:
    request = r.ReflectRequest(query="What do you think of tea?")

    async def run() -> None:
        async with opened(database) as memory:
            await memory.profile(Profile(bias=0.5))
            await memory.retain("Tea calms me.")
        async with Memory(database, llm=FakeLLM({"reflect": judge}), embedder=HashEmbedder()) as memory:
            await claim(memory)
            await execute(memory, request)
            end_lease(database)
            await answer(memory, request)
            assert len(await memory.opinions()) == 1

    asyncio.run(run())


def test_repeated_import_into_a_bank_that_it_filled_is_refused(url: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(url) as memory:
            await memory.retain(MAKE_TWO)
            await memory.export(tmp_path / "bank.jsonl")
            copy = memory.bank("copy")
            await copy.import_bank(tmp_path / "bank.jsonl")
            with pytest.raises(InvalidInput, match="holds messages already"):
                await copy.import_bank(tmp_path / "bank.jsonl")
            assert await contents(copy) == MAKE_TWO

    asyncio.run(run())
