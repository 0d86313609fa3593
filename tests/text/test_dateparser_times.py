"""Times in other languages, resolved by dateparser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from vmemo import InvalidInput, Memory, Message, Settings
from vmemo.text.temporal.foreign import DateparserTimes
from vmemo_conformance.embedders import HashEmbedder

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
"""A Wednesday."""


@pytest.mark.parametrize(
    ("language", "text", "start", "days"),
    [
        ("de", "Gestern war ich beim Zahnarzt.", "2024-03-05", 1),
        ("de", "Vor zwei Wochen sind wir nach Köln gefahren.", "2024-02-19", 7),
        ("de", "Wir haben am 3. Mai 2023 geheiratet.", "2023-05-03", 1),
        ("de", "Im Juni 2022 war es sehr heiß.", "2022-06-01", 30),
        ("fr", "Elle est née le 5 mars 1990.", "1990-03-05", 1),
        ("fr", "Hier je suis allé au marché.", "2024-03-05", 1),
        ("es", "Nos casamos el 12 de agosto de 2021.", "2021-08-12", 1),
        ("es", "Ayer comí con María.", "2024-03-05", 1),
        ("zh", "昨天我和小明在北京吃饭。", "2024-03-05", 1),
        ("zh", "我明天去看医生。", "2024-03-07", 1),
        ("zh", "三天前我买了一辆车。", "2024-03-03", 1),
        ("zh", "上个星期我去了上海。", "2024-02-26", 7),
        ("zh", "我们在2023年5月3日结婚。", "2023-05-03", 1),
        ("ja", "昨日、東京で田中さんと食事しました。", "2024-03-05", 1),
        ("ja", "明日は病院に行きます。", "2024-03-07", 1),
        ("ja", "先月京都に行きました。", "2024-02-01", 29),
        ("ko", "어제 서울에서 민수와 저녁을 먹었어요.", "2024-03-05", 1),
        ("ko", "내일 병원에 가요.", "2024-03-07", 1),
        ("ko", "작년에 결혼했어요.", "2023-01-01", 365),
    ],
)
def test_times_are_found_in_the_chosen_language(language: str, text: str, start: str, days: int) -> None:
    (found,) = DateparserTimes([language])(text, NOW)
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC)
    assert (found.start, found.end) == (begin, begin + timedelta(days=days))


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Er hat drei Katzen und zwei Hunde."),
        ("fr", "J'ai deux chats."),
        ("es", "Tengo tres hermanos."),
        ("de", ""),
        ("zh", "目前天气很好。"),
        ("ja", "明日香さんは猫が好きです。"),
        ("de", "昨天"),
    ],
)
def test_a_text_without_a_time_gives_none(language: str, text: str) -> None:
    assert DateparserTimes([language])(text, NOW) == []


def test_days_start_at_midnight_in_the_time_zone_of_the_reference() -> None:
    tokyo = timezone(timedelta(hours=9))
    (found,) = DateparserTimes(["de"])("gestern", NOW.astimezone(tokyo))
    assert found.start == datetime(2024, 3, 5, tzinfo=tokyo)


def test_an_unknown_language_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="such as de or fr"):
        DateparserTimes(["klingon"])("gestern", NOW)


def test_memory_resolves_times_of_facts_and_questions_in_its_languages(tmp_path: Path) -> None:
    settings = Settings(languages=("de",))
    with Memory(f"sqlite:///{tmp_path}/m.db", embedder=HashEmbedder(), settings=settings) as memory:
        memory.retain_sync(Message(content="Vorgestern war ich beim Zahnarzt.", timestamp=NOW))
        (fact,) = memory.facts_sync()
        assert (fact.occurred_start, fact.occurred_end) == (
            datetime(2024, 3, 4, tzinfo=UTC),
            datetime(2024, 3, 5, tzinfo=UTC),
        )
        found = memory.recall_sync("Was war am 4. März 2024?", now=NOW, explain=True)
        assert found.explanation is not None
        assert found.explanation.during is not None
        assert found.explanation.during.start == datetime(2024, 3, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("language", "said", "asked"),
    [
        ("de", "Ich war gestern beim Zahnarzt.", "Wo war ich gestern?"),
        ("fr", "Hier j'ai mangé avec Claire.", "Qu'est-ce que j'ai fait hier ?"),
        ("es", "Ayer comí con María.", "¿Qué hice ayer?"),
        ("zh", "昨天我和小明在北京吃饭。", "昨天我吃了什么？"),
        ("ja", "昨日、東京で田中さんと食事しました。", "昨日は何をしましたか？"),
        ("ko", "어제 서울에서 민수와 저녁을 먹었어요.", "어제 뭐 먹었어?"),
    ],
)
def test_messages_and_questions_about_yesterday_have_the_same_day(language: str, said: str, asked: str) -> None:
    yesterday = datetime(2024, 3, 5, tzinfo=UTC)
    with Memory(":memory:", embedder=HashEmbedder(), settings=Settings(languages=(language,))) as memory:
        memory.retain_sync(Message(content=said, timestamp=NOW))
        (fact,) = memory.facts_sync()
        assert fact.occurred_start == yesterday
        found = memory.recall_sync(asked, now=NOW, explain=True)
    assert found.explanation is not None
    assert found.explanation.during is not None
    assert found.explanation.during.start == yesterday


def test_the_environment_sets_the_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.from_environment().languages == ()
    monkeypatch.setenv("VMEMO_LANGUAGES", "de, fr")
    assert Settings.from_environment().languages == ("de", "fr")
