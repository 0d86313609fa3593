"""Results in the interactive shell and in notebooks: short, and without markup or secrets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vmemo import Answer, Citation, Fact, Hit, Memory, PromptContext, Recalled, Retained
from vmemo.models import BankId, FactId, MessageId
from vmemo.models.results import DerivationProblem
from vmemo_conformance.embedders import HashEmbedder

STORES = ("sqlite",)

AT = datetime(2024, 2, 6, tzinfo=UTC)
SCRIPT = "<script>alert('x')</script> & \"more\""
FACT = Fact(id=FactId("f1"), bank=BankId("b"), network="world", text=SCRIPT, tokens=9, mentioned_at=AT)
HIT = Hit(fact=FACT, score=0.5)
CITED = Citation(fact=FactId("f1"), text=SCRIPT, mentioned_at=AT)
CONTEXT = PromptContext(text=SCRIPT, tokens=9, max_tokens=100, recent=(FACT,))
REPRESENTED = {
    "<Fact f1 world, 2024-02-06: ": FACT,
    "<Hit 0.500 [f1] ": HIT,
    "<Recalled 1 fact, 9 tokens for 'who?'>\n  0.500 [f1] ": Recalled(query="who?", hits=(HIT,), tokens=9),
    "<Answer to 'who?', 1 citation: ": Answer(query="who?", text=f"{SCRIPT} [f1]", citations=(CITED,)),
    "<PromptContext 9 of 100 tokens, recent: 1>": CONTEXT,
    "<Retained 1 message, 0 facts, 2 pending>": Retained(stored=(MessageId("m"),), pending=2),
}


@pytest.mark.parametrize("start", REPRESENTED)
def test_a_result_is_shown_in_short(start: str) -> None:
    shown = repr(REPRESENTED[start])
    assert shown.startswith(start)
    assert len(shown) < 200
    assert str(REPRESENTED[start]) == (SCRIPT if isinstance(REPRESENTED[start], PromptContext) else shown)


def test_long_and_many_texts_are_cut() -> None:
    long = FACT.model_copy(update={"text": "tea \n\x1b[31m" * 10_000})
    shown = repr(Recalled(query="q" * 9_999, hits=(Hit(fact=long, score=1.0),) * 20))
    assert len(shown.splitlines()) == 7
    assert shown.endswith("\n  and 15 more")
    assert len(shown) < 1500
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "result",
    [
        FACT,
        Recalled(query=SCRIPT, hits=(HIT,)),
        Answer(query=SCRIPT, text=SCRIPT, citations=(CITED,)),
        CONTEXT,
        Retained(problem=DerivationProblem(error="LLMFailed", detail=SCRIPT)),
    ],
    ids=lambda result: type(result).__name__,
)
def test_a_notebook_shows_stored_markup_as_text(result: Fact | Recalled | Answer | PromptContext | Retained) -> None:
    html = result._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert html.startswith(("<table>", "<p>"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (":memory:", "Memory(SqliteStore(':memory:'), bank='default')"),
        ("/data/x.db", "Memory(SqliteStore('/data/x.db'), bank='default')"),
        (
            "postgresql://ana:s3cret@db.example:6432/memories?sslpassword=s3cret",
            "Memory(PostgresStore('db.example:6432/memories'), bank='default')",
        ),
    ],
)
def test_a_memory_is_shown_without_secrets(url: str, shown: str) -> None:
    memory = Memory(url, embedder=HashEmbedder())
    assert repr(memory) == shown
    assert repr(memory.bank("ana")) == shown.replace("default", "ana")
