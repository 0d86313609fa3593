"""The library's shape: twins, banks, handles, embedders and where facts come from."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
from builders import NOON, WordEmbedder, exported, open_memory, said, write_facts

from databases import NewDatabase, without_schema
from max_wait import MAX_WAIT
from vmemo import EmbedderMismatch, Fact, Memory, NotFound, Profile, Retained, Task
from vmemo.models import BankId, FactId
from vmemo.models.search import Vectors
from vmemo.ports import TextKind

VERBS = {name: verb for name, verb in inspect.getmembers(Memory, inspect.isfunction) if name[0] != "_"}
ASYNC_VERBS = [name for name, verb in VERBS.items() if inspect.iscoroutinefunction(verb) or name == "reflect_stream"]


# L1: twins


@pytest.mark.parametrize("name", ASYNC_VERBS)
def test_each_async_verb_has_a_synchronous_twin_with_the_same_signature(name: str) -> None:
    verb, twin = getattr(Memory, name), getattr(Memory, f"{name}_sync")
    assert inspect.signature(twin) == inspect.signature(verb)
    assert not inspect.iscoroutinefunction(twin)
    assert not inspect.isasyncgenfunction(twin)
    assert twin.__name__ == f"{name}_sync"
    assert name in twin.__doc__


def test_every_synchronous_twin_has_a_verb_and_every_verb_a_docstring() -> None:
    twins = {name.removesuffix("_sync") for name in VERBS if name.endswith("_sync")}
    assert twins == set(ASYNC_VERBS)
    for name, verb in VERBS.items():
        assert verb.__doc__, name


def test_memory_has_every_verb_of_this_release() -> None:
    verbs = """add_message add_messages add_exchange retain process recall retrieve context reflect why forget status
        profile
        exists entities episodes messages facts reembed export import_bank open close banks opinions observations
        trajectory merges jobs merge_entities undo_merge maintain reprocess schedule_maintenance left_to_reprocess work
        reflect_stream add_background former_profiles run replace_messages
        import_from get history update delete pin unpin feedback webhooks add_webhook delete_webhook
        preview_forget"""
    assert set(verbs.split()) == set(ASYNC_VERBS)
    assert callable(Memory.process_async)


def test_synchronous_verbs_work_with_and_without_a_running_loop(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync("The kettle is red.")

        async def inside() -> int:
            memory.retain_sync("The door is green.")
            await memory.retain("The roof leaks.")
            return memory.status_sync().facts

        assert asyncio.run(inside()) == 3
        assert len(memory.recall_sync("kettle").hits) >= 1


def test_synchronous_verbs_work_from_several_threads(url: str) -> None:
    with open_memory(url) as memory, ThreadPoolExecutor(6) as threads:

        def work(n: int) -> int:
            memory.retain_sync(f"Thread {n} has a kettle.")
            return len(memory.recall_sync(f"Which thread has kettle {n}?").hits)

        assert all(found > 0 for found in threads.map(work, range(18)))
        assert (memory.status_sync().facts, memory.status_sync().pending) == (18, 0)


def test_a_synchronous_verb_on_its_own_loop_raises_instead_of_hanging(url: str) -> None:
    class Calling(WordEmbedder):
        async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
            memory.status_sync()
            return await super().embed(texts, kind)

    memory = open_memory(url, embedder=Calling())
    with pytest.raises(Exception, match="await the async verb there"):
        memory.retain_sync("The kettle is red.")
    memory.close_sync()


def test_a_memory_works_in_one_event_loop_after_another(url: str) -> None:
    memory = open_memory(url)
    for n in range(3):
        assert len(asyncio.run(memory.retain(f"Kettle {n} is red.")).derived) == 1
        assert asyncio.run(memory.recall("kettle")).hits
    asyncio.run(memory.close())


def test_a_closed_memory_opens_again_with_the_next_verb(url: str) -> None:
    memory = open_memory(url)
    memory.retain_sync("The kettle is red.")
    memory.close_sync()
    memory.close_sync()
    assert memory.status_sync().facts == 1
    memory.close_sync()


def test_an_in_memory_database_lasts_until_it_is_closed() -> None:
    with Memory("sqlite:///:memory:", embedder=WordEmbedder()) as memory:
        memory.retain_sync(["The kettle is red.", "The door is green."])
        assert memory.recall_sync("red kettle").hits[0].text == "User: The kettle is red."
        memory.forget_sync(messages=[memory.messages_sync()[0].id])
        assert [fact.text for fact in memory.facts_sync()] == ["User: The door is green."]


# L2: banks


def test_banks_do_not_see_each_other(url: str, tmp_path: Path) -> None:
    with open_memory(url, "alice") as alice:
        bob = alice.bank("bob")
        alice.retain_sync("Robert Hale has a red kettle.", document="diary", tags=["t"])
        alice.retain_sync("A red kettle for words alone.", infer=False)
        bob.retain_sync("Robert Hale has a green door.", document="diary")
        (fact,) = alice.facts_sync()
        assert [hit.text for hit in bob.recall_sync("red kettle green door").hits] == [
            "Document: Robert Hale has a green door."
        ]
        assert bob.recall_sync("kettle", include_expired=True, tags=["t"]).hits == ()
        assert len(bob.messages_sync(document="diary")) == len(bob.episodes_sync()) == len(bob.entities_sync()) == 1
        assert bob.status_sync().messages == 1
        assert not {entity.id for entity in alice.entities_sync()} & {entity.id for entity in bob.entities_sync()}
        before = exported(bob, tmp_path)
        for reach in (
            lambda: bob.why_sync(fact.id),
            lambda: bob.why_sync(fact.messages[0]),
            lambda: bob.forget_sync(messages=fact.messages),
            lambda: bob.forget_sync(entity=alice.entities_sync()[0].id),
            lambda: bob.facts_sync(after=fact.id),
            lambda: bob.messages_sync(after=fact.messages[0]),
        ):
            with pytest.raises(NotFound):
                reach()
        assert exported(bob, tmp_path) == before
        assert bob.banks_sync() == ["alice", "bob"]


def test_the_same_message_can_be_in_two_banks(url: str) -> None:
    message = said("The kettle is red.")
    with open_memory(url, "alice") as alice:
        bob = alice.bank("bob")
        alice.retain_sync(message)
        bob.retain_sync(message)
        assert alice.facts_sync()[0].id != bob.facts_sync()[0].id
        alice.forget_sync(messages=[message.id])
        assert [hit.text for hit in bob.recall_sync("kettle").hits] == ["User: The kettle is red."]


def test_a_bank_of_the_same_memory_shares_its_opening_and_closing(url: str) -> None:
    async def work() -> None:
        async with open_memory(url, "alice") as alice:
            bob = alice.bank("bob")
            await asyncio.gather(*(bank.retain(f"Line {n}.") for n in range(5) for bank in (alice, bob)))
            assert (await alice.status()).facts == (await bob.status()).facts == 5

    asyncio.run(work())


def test_each_bank_has_its_own_profile(url: str) -> None:
    with open_memory(url, "alice") as alice:
        alice.profile_sync(Profile(name="Ada", bias=0.9))
        assert alice.bank("bob").profile_sync() == Profile()
    with open_memory(url, "alice") as alice:
        assert alice.profile_sync() == Profile(name="Ada", bias=0.9)


# L3: process_async


def test_a_processing_handle_can_be_awaited_and_polled(url: str) -> None:
    async def work() -> None:
        async with open_memory(url) as memory:
            await memory.add_exchange("The kettle is red.", "Indeed.")
            task: Task[Retained] = memory.process_async()
            assert (task.state, task.done()) == ("running", False)
            assert len((await task).derived) == 2
            assert (task.state, task.done(), task.cancel()) == ("done", True, False)
            assert len((await task).derived) == 2

    asyncio.run(work())


def test_a_processing_handle_works_without_a_loop(url: str) -> None:
    with open_memory(url) as memory:
        memory.add_message_sync("The kettle is red.")
        task = memory.process_async()
        assert len(task.result(timeout=MAX_WAIT).derived) == 1
        assert task.state == "done"

        async def inside() -> Retained:
            return await task

        assert asyncio.run(inside()) == task.result()


def test_a_cancelled_processing_leaves_its_messages_queued(url: str) -> None:
    class Waiting(WordEmbedder):
        entered = asyncio.Event()

        async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
            if kind == "document" and not self.entered.is_set():
                self.entered.set()
                await asyncio.Event().wait()
            return await super().embed(texts, kind)

    async def work() -> None:
        embedder = Waiting()
        async with open_memory(url, embedder=embedder) as memory:
            await memory.add_message("The kettle is red.")
            task = memory.process_async()
            await embedder.entered.wait()
            assert task.state == "running"
            assert task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.state == "cancelled"
            status = await memory.status()
            assert (status.pending, status.facts) == (1, 0)
            assert len((await memory.process()).derived) == 1

    asyncio.run(work())


def test_a_failed_processing_shows_in_its_handle(url: str) -> None:
    async def work() -> None:
        embedder = WordEmbedder()
        async with open_memory(url, embedder=embedder) as memory:
            await memory.add_message("The kettle is red.")
            embedder.broken = True
            task = memory.process_async()
            with pytest.raises(Exception, match="the model's server is gone"):
                await task
            assert task.state == "failed"

    asyncio.run(work())


# D5: why


def test_why_leads_from_a_fact_to_its_episode_and_messages(url: str) -> None:
    with open_memory(url) as memory:
        talk = [said("Shall I buy a kettle?", 0, speaker="Jon"), said("Yes, a red one.", 1, speaker="Mira")]
        memory.retain_sync(talk)
        hit = memory.recall_sync("red").hits[0]
        chain = memory.why_sync(hit.id)
        assert chain.fact == memory.facts_sync()[1]
        assert [message.content for message in chain.messages] == ["Yes, a red one."]
        assert [episode.messages for episode in chain.episodes] == [tuple(message.id for message in talk)]
        assert (chain.basis, chain.superseded_by) == ((), ())


def test_why_leads_from_an_opinion_through_the_facts_behind_it_to_their_messages(url: str) -> None:
    def fact(id: str, **more: object) -> Fact:
        values = {"id": id, "bank": "default", "network": "world", "text": id, "tokens": 1, "mentioned_at": NOON}
        return Fact.of({**values, **more})

    facts = [
        fact("rain"),
        fact("floods", basis=["rain"], network="observation"),
        fact("gloom", basis=["rain", "floods"], network="opinion", confidence=0.6),
        fact("hope", network="opinion", confidence=0.4, supersedes="gloom"),
    ]
    asyncio.run(write_facts(url, facts, WordEmbedder()))
    with open_memory(url) as memory:
        chain = memory.why_sync("gloom")
        assert [behind.fact.id for behind in chain.basis] == ["rain", "floods"]
        assert [behind.fact.id for behind in chain.basis[1].basis] == ["rain"]
        assert [message.content for message in chain.basis[1].basis[0].messages] == ["rain"]
        assert [fact.id for fact in chain.superseded_by] == ["hope"]
        rain = memory.why_sync("rain").messages[0]
        forgotten = memory.forget_sync(messages=[rain.id])
        assert forgotten.facts == 3
        assert [fact.id for fact in memory.facts_sync() if fact.network != "world"] == ["hope"]


# D6: embedders


def test_a_bank_of_another_embedder_is_refused_and_reembed_switches_it(url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(["The kettle is red.", "The door is green."])
        before = exported(memory, tmp_path)
    for other in (WordEmbedder("other"), WordEmbedder("other", 32), WordEmbedder("hash", 32)):
        refused = open_memory(url, embedder=other)
        for verb in (refused.recall_sync, refused.retain_sync, refused.why_sync):
            with pytest.raises(EmbedderMismatch, match=r"'hash' \(64 dimensions\).*vmemo reembed"):
                verb("kettle")
        refused.close_sync()
    with open_memory(url) as memory:
        assert exported(memory, tmp_path) == before
    new = WordEmbedder("other", 32)
    switching = open_memory(url, embedder=new)
    assert switching.reembed_sync() == 2
    assert len(new.documents) == 2
    assert switching.recall_sync("red kettle").hits[0].text == "User: The kettle is red."
    assert (switching.status_sync().embedder, switching.status_sync().dimension) == ("other", 32)
    assert {len(fact.embedding or ()) for fact in switching.facts_sync(with_embeddings=True)} == {32}
    switching.close_sync()
    with pytest.raises(EmbedderMismatch, match="vmemo reembed"), open_memory(url):
        pass


@pytest.mark.parametrize("dimension", [64, 32])
def test_a_memory_with_the_old_embedder_gets_an_error_after_reembed(url: str, dimension: int) -> None:
    with open_memory(url) as old:
        old.retain_sync(["The kettle is red.", "The door is green."])
        assert old.recall_sync("kettle").hits
        switching = open_memory(url, embedder=WordEmbedder("other", dimension))
        old.add_message_sync("The kettle is hot.")
        switching.reembed_sync()
        for verb in (old.recall_sync, old.retrieve_sync, old.reflect_sync, old.retain_sync, old.add_message_sync):
            with pytest.raises(EmbedderMismatch, match=r"Nothing was changed.*vmemo reembed"):
                verb("The kettle is cold.")
        assert len(switching.messages_sync()) == 3
        with pytest.raises(EmbedderMismatch, match=r"stored and queued: do not retain them again.*vmemo reembed"):
            old.process_sync()
        assert "EmbedderMismatch" in old.status_sync().problems[0].error
        assert len(switching.process_sync().derived) == 1
        assert (switching.status_sync().facts, switching.status_sync().problems) == (3, ())
        switching.close_sync()


class InterruptedEmbedder(WordEmbedder):
    """Lets another memory switch the bank to its embedder while messages are embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.switching: Memory | None = None

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Unit vectors of the former embedder."""
        if self.switching is not None:
            switching, self.switching = self.switching, None
            await switching.reembed()
        return await super().embed(texts, kind)


def test_a_retain_during_reembed_names_the_messages_that_are_stored(sqlite_url: str) -> None:
    embedder = InterruptedEmbedder()
    with open_memory(sqlite_url, embedder=embedder) as old:
        old.retain_sync("The kettle is red.")
        embedder.switching = switching = open_memory(sqlite_url, embedder=WordEmbedder("other", 32))
        with pytest.raises(EmbedderMismatch, match="stored and queued: do not retain them again") as raised:
            old.retain_sync("The kettle is hot.")
        assert [message.id for message in switching.messages_sync()][1:] == list(raised.value.stored)
        assert len(switching.process_sync().derived) == 1
        switching.close_sync()


def test_reembedding_a_missing_bank_is_refused(url: str) -> None:
    memory = open_memory(url)
    with pytest.raises(NotFound, match="There is no bank 'default'"):
        memory.reembed_sync()
    memory.close_sync()


def test_reads_continue_while_a_bank_is_reembedded(url: str) -> None:
    async def work() -> None:
        async with open_memory(url) as old:
            await old.retain([f"Kettle {n} is red." for n in range(20)])
            reads = 0

            class Reading(WordEmbedder):
                async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
                    nonlocal reads
                    reads += len((await old.recall("kettle")).hits) > 0
                    return await super().embed(texts, kind)

            switching = open_memory(url, embedder=Reading("other"))
            assert await switching.reembed() == 20
            assert reads > 0
            await switching.close()

    asyncio.run(work())


# L5: a class of one's own


class Plain:
    """Inherits nothing and knows nothing of vmemo."""

    name = "plain"
    dimension = 3

    async def embed(self, texts: Sequence[str], kind: str) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        return np.array([(1.0, float("kettle" in text), 0.5) for text in texts], np.float32)


def test_a_custom_embedder_needs_no_base_class(url: str) -> None:
    with open_memory(url, embedder=Plain()) as memory:
        memory.retain_sync(["The kettle is red.", "The door is green."])
        assert memory.recall_sync("kettle").hits[0].text == "User: The kettle is red."
        assert memory.status_sync().embedder == "plain"


# Importing


OPENINGS = """
import json, sys
opened = []
watched = {"open", "socket.__new__", "socket.connect", "sqlite3.connect", "subprocess.Popen"}
sys.addaudithook(lambda event, args: opened.append(f"{event} {args[0]}") if event in watched else None)
import vmemo
print(json.dumps([opened, sorted(sys.modules)]))
"""


def test_importing_vmemo_loads_no_database_and_no_model_and_opens_nothing_but_modules() -> None:
    output = subprocess.run([sys.executable, "-c", OPENINGS], capture_output=True, text=True, check=True).stdout
    modules = (*(str(Path(place).resolve()) for place in sys.path if place), sys.prefix, sys.base_prefix)
    opened, loaded = json.loads(output)
    assert "vmemo.memory.memory" in loaded
    assert not set(loaded) & {"sqlalchemy", "onnxruntime", "alembic", "tiktoken", "sqlite3", "typer", "rich"}
    assert [each for each in opened if not each.removeprefix("open ").startswith(modules)] == []
    # Pydantic looks for plugins in the metadata of all installed distributions. Patterns of text are data files.
    ours = [each for each in opened if "/vmemo" in each and ".dist-info/" not in each]
    assert [each for each in ours if not each.endswith((".py", ".pyc")) and "/vmemo/text/" not in each] == []


def test_creating_a_memory_touches_no_file(tmp_path: Path) -> None:
    Memory(f"sqlite:///{tmp_path / 'deeper' / 'memory.db'}", embedder=WordEmbedder())
    assert list(tmp_path.iterdir()) == []


def test_ids_are_plain_text(url: str) -> None:
    with open_memory(url) as memory:
        done = memory.retain_sync("The kettle is red.")
        assert memory.why_sync(FactId(str(done.derived[0]))).fact.bank == BankId("default")


# Opening and stopping


def test_several_new_memories_open_at_once_in_one_process(new_database: NewDatabase) -> None:
    async def fill(url: str) -> int:
        async with open_memory(url) as memory:
            await memory.retain("The kettle is red.")
            return (await memory.status()).facts

    async def all_of_them(urls: Sequence[str]) -> list[int]:
        return await asyncio.gather(*(fill(url) for url in urls))

    with ExitStack() as databases:
        urls = [without_schema(databases.enter_context(new_database())) for _ in range(6)]
        assert asyncio.run(all_of_them(urls)) == [1] * 6


def test_a_failed_context_manager_leaves_nothing_open(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync("The kettle is red.")
    other = open_memory(url, embedder=WordEmbedder("another", 32))
    with pytest.raises(EmbedderMismatch), other:
        raise AssertionError("it must not be entered")
    with pytest.raises(AssertionError, match="not open"):
        asyncio.run(other._session.store.banks())  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("step", range(0, 30, 6))
def test_a_recall_cancelled_anywhere_leaves_no_task_or_connection(url: str, step: int) -> None:
    """Warnings are errors here: a search that was prepared and never begun would be one."""

    async def cancelled() -> None:
        async with open_memory(url) as memory:
            await memory.retain(["The kettle is red.", "Ana has the kettle."])
            task = asyncio.create_task(memory.recall("Who has the red kettle, and where did Ana get it last week?"))
            for _ in range(step):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert (await memory.recall("red kettle")).hits

    asyncio.run(cancelled())
    gc.collect()
