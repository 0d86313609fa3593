"""Queries for restrictions and likes of the persons in a request for advice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vmemo.text.questions import analyse_query

NOW = datetime(2025, 2, 10, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "persons", "tastes"),
    [
        ("Which week should Ana pick?", ["Ana"], True),
        ("Is there anything at Ben's house that Ana should be careful about in March?", ["Ben", "Ana"], False),
        ("Can Lena eat the pie?", ["Lena"], False),
        ("What would be a good gift for Omar?", ["Omar"], True),
        ("Why shouldn't Ana join the class?", ["Ana"], False),
        ("What could I cook tonight?", ["I"], True),
        ("What colour is Ana's door?", [], False),
        ("What steps did I plan for the launch?", [], False),
        ("What did you recommend to Ana?", [], False),
        ("How many boats does Omar own?", [], False),
    ],
)
def test_advice_about_persons_looks_for_their_traits(question: str, persons: list[str], tastes: bool) -> None:
    links = analyse_query(question, NOW).links
    assert list(dict.fromkeys(link.split()[0] for link in links)) == persons
    assert any("favourite" in link for link in links) == tastes
