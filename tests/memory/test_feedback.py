"""Feedback on hits: bounded, for questions of nearly the same words, listed and removable."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import WordEmbedder

from vmemo import InvalidInput, Memory

LIKE = "Which colour does Ana like?"
TALK = (
    "Ana: I like the colour green of the sea.",
    "Ana: I like the colour blue of the sea.",
    "Ana: My cat is called Tux.",
)


def memory_at(path: Path | str = ":memory:") -> Memory:
    return Memory(path, embedder=WordEmbedder())


def order(memory: Memory, question: str) -> list[str]:
    return [hit.text for hit in memory.recall_sync(question).hits]


def test_a_wrong_hit_ranks_lower_for_like_questions_only_and_the_judgement_can_be_removed() -> None:
    with memory_at() as memory:
        memory.retain_sync(list(TALK))
        first, second, *_ = before = order(memory, LIKE)
        other = order(memory, "What is the cat of Ana called?")
        [wrong] = [hit.fact for hit in memory.recall_sync(LIKE).hits if hit.text == first]
        judged = memory.feedback_sync(wrong.short_id, LIKE, reason="It is another Ana.")
        assert [(each.question, each.useful, each.reason) for each in judged.feedback] == [
            (LIKE, False, "It is another Ana.")
        ]
        assert order(memory, "which colour does ana like?")[:2] == [second, first]
        assert order(memory, "Ana, which colour do you like now?")[:2] == [second, first]
        assert memory.retrieve_sync(LIKE, top_k=1).hits[0].text == second
        assert order(memory, "What is the cat of Ana called?") == other
        assert [fact.id for fact in memory.facts_sync(feedback=True)] == [wrong.id]
        memory.feedback_sync(wrong.id, LIKE, useful=None)
        assert order(memory, LIKE) == before
        assert memory.facts_sync(feedback=True) == []
        assert memory.get_sync(wrong.id).metadata == {}


def test_feedback_moves_a_score_by_a_quarter_at_most() -> None:
    with memory_at() as memory:
        memory.retain_sync(list(TALK))
        before = {hit.id: hit.score for hit in memory.recall_sync(LIKE).hits}
        best, *_ = before
        for words in ("", " now", " today", " of all"):
            memory.feedback_sync(best, f"{LIKE[:-1]}{words}?")
        after = {hit.id: hit.score for hit in memory.recall_sync(LIKE).hits}
        assert after[best] == pytest.approx(0.75 * before[best])
        memory.feedback_sync(best, LIKE, useful=True)
        assert len(memory.get_sync(best).feedback) == 4


def test_feedback_never_lifts_an_outdated_fact_above_what_replaced_it() -> None:
    with memory_at() as memory:
        memory.retain_sync("I live in Rome.", speaker="Ana", timestamp="2026-01-01T10:00:00Z")
        old = memory.facts_sync()[0]
        new = memory.update_sync(old.id, "Ana: I live in Oslo.")
        question = "Where does Ana live?"
        memory.feedback_sync(old.id, question, useful=True)
        memory.feedback_sync(new.id, question)
        found = [hit.id for hit in memory.recall_sync(question, include_expired=True).hits]
        assert found.index(new.id) < found.index(old.id)


def test_feedback_survives_reprocessing_and_transfer_and_ends_with_a_correction(tmp_path: Path) -> None:
    with memory_at() as memory:
        memory.retain_sync(list(TALK))
        fact = next(fact for fact in memory.facts_sync() if "green" in fact.text)
        memory.feedback_sync(fact.id, LIKE)
        memory.reprocess_sync()
        [judged] = memory.facts_sync(feedback=True)
        assert "green" in judged.text
        memory.export_sync(tmp_path / "bank.jsonl")
        copy = memory.bank("copy")
        copy.import_bank_sync(tmp_path / "bank.jsonl")
        assert [each.question for each in copy.facts_sync(feedback=True)[0].feedback] == [LIKE]
        assert memory.update_sync(judged.id, "Ana likes red.").feedback == ()


def test_forgetting_an_entity_removes_feedback_that_names_it(tmp_path: Path) -> None:
    with memory_at(tmp_path / "memory.db") as memory:
        memory.retain_sync(["Zarathustra Quill moved to Oslo.", "My cat is called Tux."])
        cat = next(fact for fact in memory.facts_sync() if "Tux" in fact.text)
        memory.feedback_sync(cat.id, "Where does Zarathustra Quill live?")
        memory.feedback_sync(cat.id, "Where do cats live?")
        memory.forget_sync(entity="Zarathustra Quill")
        [left] = memory.facts_sync(feedback=True)
        assert [each.question for each in left.feedback] == ["Where do cats live?"]
    assert all(b"Zarathustra" not in file.read_bytes() for file in tmp_path.iterdir())


def test_a_repeated_statement_is_recognised_beside_feedback() -> None:
    with memory_at() as memory:
        memory.retain_sync("My cat is called Tux.", speaker="Ana")
        fact = memory.facts_sync()[0]
        memory.feedback_sync(fact.id, "What is the cat called?", useful=True)
        memory.retain_sync("My cat is called Tux.", speaker="Ana")
        assert len(memory.facts_sync()) == 1


def test_metadata_of_the_same_name_is_no_feedback() -> None:
    with memory_at() as memory:
        memory.retain_sync("My cat is called Tux.", metadata={"vmemo.feedback": "great"})
        assert memory.facts_sync()[0].feedback == ()
        assert memory.recall_sync("What is the cat called?").hits
        with pytest.raises(InvalidInput, match="question"):
            memory.feedback_sync(memory.facts_sync()[0].id, " ")


def test_a_fact_that_was_closed_by_mistake_is_current_again_with_its_own_text() -> None:
    with memory_at() as memory:
        memory.retain_sync("I like tea.", speaker="Ana", timestamp="2026-01-01T10:00:00Z")
        tea = memory.facts_sync()[0]
        coffee = memory.update_sync(tea.id, "Ana: I like coffee.")
        again = memory.update_sync(tea.id, tea.text, "She likes both.")
        for _ in range(2):
            current = {fact.text for fact in memory.facts_sync() if fact.expired_at is None}
            assert current == {tea.text, coffee.text}
            memory.reprocess_sync()
        assert (again.valid_at, again.mentioned_at) == (tea.valid_at, tea.mentioned_at)
        assert memory.update_sync(tea.id, tea.text).id == again.id
