"""Procedures are found by their form, stay whole and in order, and have what was said later of their outcome."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vmemo import Memory
from vmemo.text.procedures import find_procedure, is_outcome

RELEASE = (
    "How we release the shop:\n1. Bump the version in pyproject.toml\n2. Run `make dist`\n3. Ask Mila for a review\n"
    "4. Tag the commit and push the tag"
)
PROCEDURE = {"kind": "procedure"}


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        opened.retain_sync(["Our office moved to Leith in March.", "The shop has a blue logo."], document="talk")
        yield opened


@pytest.mark.parametrize(
    ("text", "before", "by_agent"),
    [
        (RELEASE, "", False),
        ("When CI fails, read the log first, then rerun the job once, and open an issue if it fails again.", "", False),
        ("1. stop the workers\n2. run the migrations\n3. start the workers", "How do we deploy?", True),
        ("First stop the workers, then migrate, then start them.", "What do we do when a deploy fails?", False),
        ("Our deploy procedure: 1. stop the workers 2. run the migration 3. start them again", "", False),
        ("Runbook for a full disk:\n* ssh into the box\n  as deploy\n* run `du -sh`\n* delete old logs", "", False),
        ("To roll back, restore the last backup, then restart the workers and tell support.", "", False),
    ],
)
def test_steps_below_a_title_or_a_question_are_a_procedure(text: str, before: str, by_agent: bool) -> None:
    found = find_procedure(f"{text}\n\nThat is all.", before=before, by_agent=by_agent)
    found = found or find_procedure(text, before=before, by_agent=by_agent)
    assert found is not None
    assert text[:60] in f"{text}\n\nThat is all."[found.start : found.end]


@pytest.mark.parametrize(
    ("text", "by_agent"),
    [
        ("Groceries:\n1. milk\n2. eggs\n3. bread", False),
        ("My three goals:\n1. run a marathon\n2. read more\n3. call mum", False),
        ("If it rains we'll stay home, then watch a film and order pizza.", False),
        ("To be honest, I'd rather go home and then sleep.", False),
        ("How to sleep better:\n1. Keep a schedule\n2. Avoid coffee\n3. Leave the phone outside", True),
        ("```yaml\nsteps:\n- run: make\n- run: test\n- run: push\n```", False),
    ],
)
def test_other_lists_and_advice_of_an_agent_are_none(text: str, by_agent: bool) -> None:
    assert find_procedure(text, by_agent=by_agent) is None


def test_a_procedure_is_recalled_whole_and_by_its_kind(memory: Memory) -> None:
    long = "\n".join(
        f"{n}. Check the {n}th part of the shop and write a line into the log of the day" for n in range(1, 51)
    )
    memory.retain_sync(f"Some words before.\n\nHow we audit the shop:\n{long}\n\nThat is all for today.")
    memory.retain_sync(RELEASE)
    found = memory.recall_sync("How do we release the shop?")
    assert found.hits[0].text == f"User: {RELEASE}"
    [audit, release] = memory.recall_sync("shop", metadata=PROCEDURE).hits
    assert audit.fact.is_procedure
    assert release.fact.is_procedure
    [audit] = [hit for hit in (audit, release) if "audit" in hit.text]
    assert audit.text.endswith("50. Check the 50th part of the shop and write a line into the log of the day")
    short = memory.recall_sync("How do we audit the shop?", 200, metadata=PROCEDURE).hits[0]
    assert short.truncated
    assert short.text.endswith("into the log of the day […]"), "it is cut between two steps"


def test_outcomes_are_noted_on_the_procedure(memory: Memory) -> None:
    memory.retain_sync([RELEASE, "Thanks.", "that worked"], document="monday")
    memory.retain_sync("The release failed: nobody reviewed it.", document="friday", timestamp="2031-05-02")
    [hit] = memory.recall_sync("How do we release the shop?", metadata=PROCEDURE).hits
    assert [each.partition(": ")[2] for each in hit.outcomes] == [
        "that worked",
        "The release failed: nobody reviewed it.",
    ]
    prompt = memory.recall_sync("How do we release the shop?").to_prompt()
    after = prompt[prompt.index("push the tag") :]
    assert after.index("that worked") < after.index("(later, 2 May 2031: The release failed")
    said = [message.content for message in memory.why_sync(hit.id).messages]
    assert said == [RELEASE, "that worked", "The release failed: nobody reviewed it."]


def test_an_outcome_of_something_else_stays_a_fact(memory: Memory) -> None:
    memory.retain_sync(RELEASE, document="monday")
    memory.retain_sync("The new heating works and nobody freezes.", document="flat")
    [hit] = memory.recall_sync("How do we release the shop?", metadata=PROCEDURE).hits
    assert hit.outcomes == ()
    assert any("heating works" in fact.text for fact in memory.facts_sync())


@pytest.mark.parametrize("text", ["ok, that broke it", "Step 3 is gone.", "the release worked fine", "it failed again"])
def test_words_on_an_outcome(text: str) -> None:
    assert is_outcome(text)
    assert not is_outcome(f"{text}?")
