"""The packaged revision model: the estimates of clear cases, and files that are refused."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace

import pytest

from vmemo.embedding.revision_model import PackagedRevisionModel
from vmemo.errors import ModelCorrupt
from vmemo.models.search import StatementPair
from vmemo.ports import RevisionModel
from vmemo.text.change_features import MAX_CHARACTERS, change_features, examine
from vmemo_models import REVISION


def score(*pairs: tuple[str, str, int, float]) -> list[float]:
    return asyncio.run(PackagedRevisionModel(REVISION).score([StatementPair(*pair) for pair in pairs]))


def test_the_packaged_model_implements_the_port() -> None:
    model = PackagedRevisionModel(REVISION)
    assert isinstance(model, RevisionModel)
    assert model.encoder == "vmemo-encoder-1"
    assert score() == []


OLD = "Maya: Choir is on Tuesdays at half seven in the chapel hall"


@pytest.mark.parametrize(
    "later",
    [
        "Maya: Is choir still on Tuesdays in the chapel hall?",
        "Maya: If the chapel hall closes we might move choir to Thursdays one day",
        "Tom: My sister says her choir moved to Thursdays",
        "Maya: Choir was lovely, same hall as ever",
    ],
)
def test_a_change_is_more_probable_than_what_only_looks_like_one(later: str) -> None:
    change = "Maya: New term news: they took our chapel hall slot, so choir has moved to Thursdays from now on"
    changed, other = score((OLD, change, 200, 0.7), (OLD, later, 200, 0.7))
    assert changed > 2 * other


def test_only_the_beginning_of_a_long_statement_is_examined() -> None:
    text = "Ana: " + "so " * MAX_CHARACTERS
    assert examine(text + "I moved") == examine(text)


def test_features_are_named_the_same_for_all_texts() -> None:
    names = change_features(examine(""), examine(""), days=0, cosine=0.0).keys()
    assert change_features(examine(OLD), examine("no speaker, 7 of 9!"), days=-3, cosine=0.9).keys() == names


def test_a_probability_is_the_logistic_function_of_the_weighted_features() -> None:
    weights: dict[str, float] = json.loads(REVISION.read("weights.json"))
    later = "Maya: From today choir is no longer at 7 but at 8, my sister Ana's idea"
    features = change_features(examine(OLD), examine(later), days=30, cosine=0.7)
    logit = weights["bias"] + sum(weights[name] * value for name, value in features.items())
    assert score((OLD, later, 30, 0.7), (later, OLD, 1, 0.1))[0] == pytest.approx(1 / (1 + math.exp(-logit)))


@pytest.mark.parametrize(
    ("text", "cues"),
    [
        ("Now we're no longer there", {"now", "ended", "first person"}),
        ("Know anymore about cancelled trips?", {"ended", "asks", "holds a question"}),
        ("She'll come for a few days with her little sister", {"planned", "temporary", "others"}),
        ("Renowned", set[str]()),
    ],
)
def test_cues_are_whole_words_and_phrases(text: str, cues: set[str]) -> None:
    assert examine(text).cues == cues


def test_a_changed_file_is_refused() -> None:
    broken = PackagedRevisionModel(replace(REVISION, files={"weights.json": "0" * 64}))
    with pytest.raises(ModelCorrupt, match="Reinstall vmemo"):
        asyncio.run(broken.score([StatementPair("a", "b", 0, 0.0)]))
