"""Maintenance: similar episodes are joined, old ones shortened, faded facts closed; nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pydantic import JsonValue

from databases import store_at
from vmemo.errors import InvalidInput, StoreBusy
from vmemo.lifecycle.maintain import SHORT_NARRATIVE, maintain
from vmemo.memory.inspect import provenance
from vmemo.models import ConfidenceChange, Episode, Fact, Message, utc_now
from vmemo.models.changes import Changes, Lease, NewJob
from vmemo.models.results import Job, Maintained
from vmemo.models.search import Scope, Vectors
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.models.settings import Settings
from vmemo.ports import Store, TextKind
from vmemo.retain.context import RetainContext
from vmemo.retain.llm_pipeline import LeaseLost
from vmemo.retain.local_extraction import LocalExtractor
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    START,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_episode,
    day,
    matches,
    snapshot,
    store_fact,
)

STORES = ("sqlite",)

ALIKE = "Caroline planted red tulips behind the old shed"
LONG = "\n".join(
    [
        "On 1 January 2024 Caroline and Melanie talked.",
        f"Caroline: {ALIKE}, and more red tulips beside the old shed, because tulips are what Caroline likes to plant.",
        "Melanie: Good.",
        f"Caroline: {'Quite another thing happened at the station of the town. ' * 3}",
    ]
)
QUIET = Settings(episode_messages=1, maintenance_shorten_after=None)
"""Episodes of one message are not joined."""


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Store]:
    store = store_at(url)
    await store.open()
    await store.create_bank(a_bank())
    try:
        yield store
    finally:
        await store.close()


def on_store(test: Callable[[Store], Awaitable[None]]) -> Callable[[str], None]:
    """Run an async test on a fresh store of each kind."""

    async def whole(url: str) -> None:
        async with opened(url) as store:
            await test(store)

    def plain(url: str) -> None:
        asyncio.run(whole(url))

    plain.__name__, plain.__doc__ = test.__name__, test.__doc__
    return plain


def context(store: Store, llm: FakeLLM | None = None, settings: Settings = Settings()) -> RetainContext:  # noqa: B008
    return RetainContext(
        store=store, embedder=EMBEDDER, extractor=LocalExtractor(), llm=llm, counter=len, settings=settings
    )


def fading(below: float) -> Settings:
    return QUIET.model_copy(update={"maintenance_fade_below": below})


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


async def read(
    store: Store, *contents: str, minute: float = 0, title: str = "talk", narrative: str = "Short.", **fields: object
) -> Episode:
    """An episode that was read: a message each minute, and a fact of each."""
    said = [a_message(text, timestamp=at(minute + i), document="talk") for i, text in enumerate(contents)]
    await store.append(BANK, said)
    last = first_of(await store.episodes(BANK, EpisodeSelect(last_first=True, limit=1)))
    previous = None if last is None else last.id
    episode = an_episode(title, said, **{"narrative": narrative, "previous": previous, **fields})
    batch = await a_batch(store, [_fact(message, episode) for message in said])
    assert await store.commit(replace(batch, pending=[message.id for message in said], episodes=[episode]))
    return episode


def _fact(message: Message, episode: Episode) -> Fact:
    told = {"messages": [message.id], "episodes": [episode.id], "mentioned_at": message.timestamp}
    return a_fact(message.content, **told)


async def lease(store: Store, owner: str = "worker", *, seconds: float = 600) -> Lease:
    [job] = await store.lease(owner, seconds, bank=BANK, kinds=["maintain"])
    return Lease(job=job.id, owner=owner, requests=job.requests)


async def narratives(store: Store) -> list[str]:
    return [episode.narrative for episode in await store.episodes(BANK, EpisodeSelect())]


def answer(texts: Mapping[int, str]) -> JsonValue:
    """Return a model's answer about numbered episodes."""
    return {"episodes": [{"number": number, "text": text} for number, text in texts.items()]}


# Joining


@on_store
async def test_neighbours_that_tell_the_same_become_one_episode(store: Store) -> None:
    one = await read(store, f"{ALIKE}.", f"{ALIKE} yesterday.")
    two = await read(store, f"{ALIKE} again.", minute=5)
    three = await read(store, "The train to Bergen was late.", minute=10)
    before = await snapshot(store)
    assert await maintain(BANK, context(store), now=at(60)) == Maintained(joined=1, optimised=True)
    after = await snapshot(store)
    kept, other = after.episodes
    assert (kept.id, kept.messages) == (one.id, (*one.messages, *two.messages))
    assert (kept.started_at, kept.ended_at) == (one.started_at, two.ended_at)
    assert kept.narrative.count("\n") == 3, "it is told anew from all messages"
    assert (other.id, other.previous) == (three.id, one.id)
    assert after.messages == before.messages
    assert [fact.model_copy(update={"episodes": ()}) for fact in after.facts] == [
        fact.model_copy(update={"episodes": ()}) for fact in before.facts
    ]


@on_store
async def test_every_fact_still_leads_to_an_episode_that_holds_its_messages(store: Store) -> None:
    for minute in range(6):
        await read(store, f"{ALIKE}.", minute=minute)
    assert (await maintain(BANK, context(store), now=at(60))).joined == 5
    [episode] = await store.episodes(BANK, EpisodeSelect())
    for fact in await store.facts(BANK, FactSelect()):
        behind = await provenance(BANK, fact, store)
        assert behind.episodes == (episode,)
        assert {message.id for message in behind.messages} <= set(episode.messages)


@on_store
async def test_other_topics_other_times_and_large_episodes_stay_apart(store: Store) -> None:
    await read(store, *[f"{ALIKE} {n}." for n in range(20)])
    await read(store, *[f"{ALIKE} {n} again." for n in range(6)], minute=25)
    await read(store, "The train to Bergen was late.", minute=32)
    await read(store, "The train to Bergen was late.", minute=63)
    before = await snapshot(store)
    assert (await maintain(BANK, context(store), now=at(90))).joined == 0
    assert await snapshot(store) == before


@on_store
async def test_an_episode_that_is_not_read_yet_is_left_alone(store: Store) -> None:
    await read(store, f"{ALIKE}.")
    said = a_message(f"{ALIKE}.", timestamp=at(2), document="talk")
    await store.append(BANK, [said])
    waiting = an_episode("waiting", [said])
    batch = replace(await a_batch(store, [_fact(said, waiting)]), episodes=[waiting], pending=[said.id])
    assert await store.commit(replace(batch, becomes="grouped"))
    before = await snapshot(store)
    assert (await maintain(BANK, context(store), now=at(60))).joined == 0
    assert await snapshot(store) == before


@on_store
async def test_joining_can_be_turned_off(store: Store) -> None:
    await read(store, f"{ALIKE}.")
    await read(store, f"{ALIKE}.", minute=2)
    assert (await maintain(BANK, context(store, settings=QUIET))).joined == 0
    assert len(await store.episodes(BANK, EpisodeSelect())) == 2


# Shortening


@on_store
async def test_old_episodes_are_told_by_their_most_central_line(store: Store) -> None:
    await read(store, "tulips", narrative=LONG)
    before = await snapshot(store)
    assert (await maintain(BANK, context(store), now=day(90))).shortened == 0
    assert await snapshot(store) == before
    assert (await maintain(BANK, context(store), now=day(92))).shortened == 1
    [narrative] = await narratives(store)
    assert narrative.startswith(f"Caroline: {ALIKE}")
    assert len(narrative) <= SHORT_NARRATIVE
    after = await snapshot(store)
    assert replace(after, episodes=[]) == replace(before, episodes=[])
    assert [episode.title for episode in after.episodes] == ["talk"]


@on_store
async def test_prose_and_text_without_spaces_are_shortened_as_well(store: Store) -> None:
    prose = "Caroline moved to Oslo. " + "Caroline likes red tulips and the red tulips of Oslo most of all. " * 4
    await read(store, "prose", narrative=prose)
    await read(store, "dense", minute=60, narrative="郁金香" * 100)
    assert (await maintain(BANK, context(store), now=day(99))).shortened == 2
    assert await narratives(store) == [
        "Caroline likes red tulips and the red tulips of Oslo most of all.",
        ("郁金香" * 100)[: SHORT_NARRATIVE - 1] + "…",
    ]


# Fading


@on_store
async def test_nothing_fades_unless_asked_for(store: Store) -> None:
    await store_fact(store, "tulips", importance=0.01)
    before = await snapshot(store)
    assert (await maintain(BANK, context(store), now=day(9999))).pruned == 0
    assert await snapshot(store) == before


@on_store
async def test_what_is_old_unimportant_and_never_recalled_is_closed_and_not_deleted(store: Store) -> None:
    faint = await store_fact(store, "tulips", importance=0.2)
    firm = await store_fact(store, "roses", importance=0.9)
    used = await store_fact(store, "lilies", importance=0.2)
    await store.commit(Changes(bank=BANK, accesses={used.id: 1}))
    now = START + timedelta(days=180)
    messages = await store.messages(BANK, MessageSelect())
    assert (await maintain(BANK, context(store, settings=fading(0.1)), now=now)).pruned == 0
    assert (await maintain(BANK, context(store, settings=fading(0.11)), now=now)).pruned == 1
    [closed] = await store.facts(BANK, FactSelect(ids=[faint.id]))
    assert (closed.expired_at, closed.invalid_at) == (now, faint.invalid_at)
    assert await matches(store, "tulips") == []
    assert await matches(store, "tulips", Scope(bank=BANK, include_expired=True)) == [faint.id]
    assert await matches(store, "roses lilies") == [firm.id, used.id]
    assert await store.messages(BANK, MessageSelect()) == messages


@on_store
async def test_what_opinions_and_observations_rest_on_does_not_fade(store: Store) -> None:
    facts = [await store_fact(store, f"tulips {n}", importance=0.1) for n in range(4)]
    opinion = a_fact("I like tulips.", network="opinion", confidence=0.5, basis=[facts[0].id], importance=0.1)
    seen = a_fact("About tulips.", network="observation", basis=[facts[1].id], importance=0.1)
    step = ConfidenceChange(
        opinion=opinion.id, stance="reinforce", before=0.5, after=0.6, evidence=(facts[2].id,), at=START
    )
    assert await store.commit(await a_batch(store, [opinion, seen]))
    assert await store.commit(replace(await a_batch(store), confidence=[step]))
    done = await maintain(BANK, context(store, settings=fading(0.5)), now=day(999))
    assert done.pruned == 1
    assert [fact.id for fact in await store.facts(BANK, FactSelect()) if fact.expired_at is not None] == [facts[3].id]


# As a job


async def _queued(store: Store) -> list[Job]:
    return await store.jobs(BANK, ["maintain"])


@on_store
async def test_scheduled_maintenance_is_queued_for_the_next_time(store: Store) -> None:
    await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="maintain")]))
    begun = utc_now()
    await maintain(BANK, context(store, settings=Settings(maintenance_every=6)), lease=await lease(store))
    [job] = await _queued(store)
    assert begun + timedelta(hours=6) <= job.due <= utc_now() + timedelta(hours=6)
    assert (job.owner, job.attempts) == (None, 0)


@on_store
async def test_maintenance_that_is_never_due_again_leaves_no_job(store: Store) -> None:
    await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="maintain")]))
    await maintain(BANK, context(store, settings=Settings(maintenance_every=0)), lease=await lease(store))
    assert await _queued(store) == []
    await maintain(BANK, context(store))
    assert await _queued(store) == [], "on demand it is done once"


@on_store
async def test_a_worker_that_lost_the_job_stops_and_changes_nothing(store: Store) -> None:
    await read(store, f"{ALIKE}.", narrative=LONG)
    await read(store, f"{ALIKE}.", minute=2)
    await store_fact(store, "faint", importance=0.1)
    await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="maintain")]))
    lost = await lease(store, "slow", seconds=0)
    await lease(store, "quick")
    before, queued = await snapshot(store), await _queued(store)
    for upkeep in (Settings(), Settings(episode_messages=1), fading(0.5), QUIET):
        with pytest.raises(LeaseLost):
            await maintain(BANK, context(store, settings=upkeep), lease=lost, now=day(999))
    assert await snapshot(store) == before
    assert await _queued(store) == queued


@on_store
async def test_done_twice_it_changes_nothing_more(store: Store) -> None:
    await read(store, f"{ALIKE}.", f"{ALIKE} {'again and ' * 30}again.", narrative=LONG)
    await read(store, f"{ALIKE}.", minute=4)
    await store_fact(store, "faint", importance=0.1)
    upkeep, now = Settings(maintenance_fade_below=0.05), day(400)
    first = await maintain(BANK, context(store, settings=upkeep), now=now)
    assert (first.joined, first.shortened, first.pruned) == (1, 1, 1)
    after = await snapshot(store)
    assert await maintain(BANK, context(store, settings=upkeep), now=now) == Maintained(optimised=True)
    assert await snapshot(store) == after


class Stopping(HashEmbedder):
    """Embeds once, and then stops all work."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 1

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if self._left == 0:
            raise asyncio.CancelledError
        self._left -= 1
        return await super().embed(texts, kind)


@on_store
async def test_interrupted_after_any_step_it_goes_on_where_it_was(store: Store) -> None:
    for minute in range(4):
        await read(store, f"{ALIKE}, {'again and ' * 20}again.", minute=minute, narrative=LONG)
    messages = await store.messages(BANK, MessageSelect())
    left: list[int] = []
    for _ in range(3):
        with pytest.raises(asyncio.CancelledError):
            await maintain(BANK, replace(context(store), embedder=Stopping()), now=day(400))
        episodes = await store.episodes(BANK, EpisodeSelect())
        left.append(len(episodes))
        assert sorted(id for each in episodes for id in each.messages) == sorted(message.id for message in messages)
    assert left == [3, 2, 1]
    assert (await maintain(BANK, context(store), now=day(400))).shortened == 1
    assert await store.messages(BANK, MessageSelect()) == messages


# Indexes


def test_a_database_that_another_holds_is_busy_and_tidied_later(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db", busy_seconds=0.05)
        await store.open()
        await store.create_bank(a_bank())
        await store_fact(store, "tulips")
        with closing(sqlite3.connect(tmp_path / "memory.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy):
                await maintain(BANK, context(store))
            other.rollback()
            other.execute("BEGIN").execute("SELECT * FROM facts").fetchone()
            assert (await maintain(BANK, context(store))).optimised, "a reader is in nobody's way"
        assert await matches(store, "tulips")
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("wrong", ["half_life", "every", "shorten_after"])
def test_times_that_make_no_sense_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidInput, match=f"maintenance_{wrong}"):
        Settings(**{f"maintenance_{wrong}": -1.0})  # pyright: ignore[reportArgumentType]
