"""The packaged revision model: the estimates of clear cases, and files that are refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from vmemo.embedding.revision_model import PackagedRevisionModel
from vmemo.errors import ModelCorrupt
from vmemo.models.search import StatementPair
from vmemo.ports import RevisionModel
from vmemo_models import REVISION


def score(*pairs: StatementPair) -> list[float]:
    return asyncio.run(PackagedRevisionModel(REVISION).score(pairs))


CHANGE = StatementPair(
    "Maya: Choir is on Tuesdays at half seven in the chapel hall",
    "Maya: They took the chapel hall, so choir has moved to Thursdays at half seven",
    days=60,
    cosine=0.7,
    shared=5,
    rare=4.5,
    earlier_terms=7,
    later_terms=9,
    rank=0,
    lead=0.2,
)


def test_the_packaged_model_implements_the_port() -> None:
    model = PackagedRevisionModel(REVISION)
    assert isinstance(model, RevisionModel)
    assert model.encoder == "vmemo-encoder-2.1"
    assert score() == []


def test_statements_that_share_rare_terms_are_more_probably_a_change() -> None:
    other = CHANGE._replace(shared=1, rare=0.1, rank=8, lead=-0.1, cosine=0.45)
    changed, unrelated = score(CHANGE, other)
    assert 0 < unrelated < 0.05 < changed < 1


def test_a_changed_file_is_refused() -> None:
    broken = PackagedRevisionModel(replace(REVISION, files={"weights.json": "0" * 64}))
    with pytest.raises(ModelCorrupt, match="Reinstall vmemo"):
        asyncio.run(broken.score([CHANGE]))
