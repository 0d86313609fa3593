"""Parsers of the datasets, on small files."""

from __future__ import annotations

import json
import lzma
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vmemo.errors import InvalidInput
from vmemo_bench.datasets import load, locomo, longmemeval, ours
from vmemo_bench.options import BenchmarkName, BenchOptions

LOCOMO: list[dict[str, object]] = [
    {
        "sample_id": "conv-x",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Bo",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": "I bought a red kite."},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a kite on a beach"},
            ],
            "session_2_date_time": "12:05 am on 1 June, 2023",
        },
        "qa": [
            {"question": "What did Ada buy?", "answer": "kite", "evidence": ["D1:1", "D9:9"], "category": 4},
            {"question": "Both?", "answer": "x", "evidence": ["D1:1; D1:2"], "category": 1},
            {"question": "Unanswerable?", "evidence": ["D1:2"], "category": 5, "adversarial_answer": "no"},
        ],
    }
]

OURS: dict[str, object] = {
    "id": "conv_x",
    "speakers": ["Ada", "Assistant"],
    "sessions": [
        {
            "n": 3,
            "date": "2024-02-11T20:40",
            "turns": [
                {"id": "D3:1", "speaker": "Ada", "text": "My kite tore."},
                {"id": "D3:2", "speaker": "Assistant", "text": "Sorry to hear it."},
            ],
        }
    ],
    "questions": [
        {
            "question": "What tore?",
            "answer": "kite",
            "evidence": ["D3:1"],
            "kind": "single",
            "asked_at": "2025-02-01",
        },
        {"question": "What sank?", "answer": "nothing", "evidence": [], "kind": "adversarial"},
    ],
}


def haystack(name: str, kind: str = "single-session-user") -> dict[str, object]:
    """Return a question over three sessions, the last of them a copy of the first."""
    kite: list[dict[str, object]] = [
        {"role": "user", "content": "My kite is red.", "has_answer": True},
        {"role": "assistant", "content": "  ", "has_answer": False},
        {"role": "assistant", "content": "Nice."},
    ]
    return {
        "question_id": name,
        "question_type": kind,
        "question": "Which colour is my kite?",
        "question_date": "2023/05/30 (Tue) 22:53",
        "answer": "red",
        "answer_session_ids": ["kite"],
        "haystack_dates": ["2023/05/20 (Sat) 10:44", "2023/05/19 (Fri) 09:00", "2023/05/21 (Sun) 10:44"],
        "haystack_session_ids": ["kite", "soup", "kite"],
        "haystack_sessions": [kite, [{"role": "user", "content": "Soup?"}], kite],
    }


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def test_locomo_times_are_parsed_as_utc() -> None:
    assert locomo.parse_time("1:56 pm on 8 May, 2023") == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert locomo.parse_time("12:05 am on 1 June, 2023") == datetime(2023, 6, 1, 0, 5, tzinfo=UTC)


def test_locomo_turns_include_the_photo_caption_and_sessions_without_turns_are_omitted() -> None:
    (case,) = locomo.parse(encoded(LOCOMO)).cases
    (session,) = case.sessions
    assert session.document == "session-1"
    assert [turn.text for turn in session.turns] == ["I bought a red kite.", "Look! [photo: a kite on a beach]"]
    assert [turn.speaker for turn in session.turns] == ["Ada", "Bo"]


def test_locomo_counts_unresolved_evidence_and_omits_category_five() -> None:
    parsed = locomo.parse(encoded(LOCOMO))
    (question,) = parsed.cases[0].questions
    assert (question.category, question.evidence) == ("single-hop", {"D1:1"})
    assert (parsed.skipped_evidence, parsed.skipped_questions) == (2, 2)


def test_in_qa_mode_locomo_includes_every_question_that_can_be_judged() -> None:
    asked: list[dict[str, object]] = [
        {"question": "How many?", "answer": 3, "evidence": [], "category": 1},
        {"question": "Never told?", "evidence": ["D1:2"], "category": 5, "adversarial_answer": "no"},
        {"question": "Is it so?", "answer": "No", "evidence": ["D1:2"], "category": 5, "adversarial_answer": "Yes"},
        {"question": "Who knows?", "evidence": ["D1:1"], "category": 4},
        {"question": "Odd?", "answer": "x", "evidence": ["D1:1"], "category": 9},
    ]
    parsed = locomo.parse(encoded([{**LOCOMO[0], "qa": asked}]), qa=True)
    found = [(q.id, q.category, q.answer, q.answerable, q.lure) for q in parsed.cases[0].questions]
    assert found == [
        ("conv-x/0", "multi-hop", "3", True, ""),
        ("conv-x/1", "adversarial", "", False, "no"),
        ("conv-x/2", "adversarial", "No", True, "Yes"),
    ]
    assert parsed.skipped_questions == 2


def test_in_qa_mode_unanswerable_questions_are_included_and_marked() -> None:
    parsed = longmemeval.parse(encoded([haystack("q1"), haystack("q2_abs")]), qa=True)
    questions = [case.questions[0] for case in parsed.cases]
    assert [(q.id, q.category, q.answer, q.answerable) for q in questions] == [
        ("q1", "single-session-user", "red", True),
        ("q2_abs", "single-session-user", "red", False),
    ]
    (case,) = ours.parse([encoded(OURS)], qa=True).cases
    assert [(q.answer, q.answerable) for q in case.questions] == [("kite", True), ("nothing", False)]


def test_unanswerable_questions_have_their_share_of_a_sample() -> None:
    names = [f"q{n}" for n in range(8)] + ["q8_abs", "q9_abs"]
    drawn = longmemeval.parse(encoded([haystack(name) for name in names]), sample=5, qa=True).cases
    assert sum(not case.questions[0].answerable for case in drawn) == 1


def test_our_conversations_keep_kinds_and_assign_the_assistant_role() -> None:
    parsed = ours.parse([encoded(OURS)])
    (case,) = parsed.cases
    (session,) = case.sessions
    assert session.started_at == datetime(2024, 2, 11, 20, 40, tzinfo=UTC)
    assert [turn.role for turn in session.turns] == ["user", "assistant"]
    assert [(question.category, question.evidence) for question in case.questions] == [("single", {"D3:1"})]
    assert parsed.skipped_questions == 1


def test_longmemeval_times_may_have_a_weekday() -> None:
    expected = datetime(2023, 5, 20, 10, 44, tzinfo=UTC)
    assert longmemeval.parse_time("2023/05/20 (Sat) 10:44") == expected
    assert longmemeval.parse_time("2023/05/20 10:44") == expected


def test_longmemeval_evidence_consists_of_sessions_and_turns() -> None:
    (case,) = longmemeval.parse(encoded([haystack("q1")])).cases
    (question,) = case.questions
    assert (question.sessions, question.evidence) == ({"kite"}, {"kite:1"})
    assert [session.document for session in case.sessions] == ["kite#1", "soup#1", "kite#2"]
    assert [turn.id for turn in case.sessions[0].turns] == ["kite:1", "kite:3"]


def test_longmemeval_omits_unanswerable_questions() -> None:
    parsed = longmemeval.parse(encoded([haystack("q1"), haystack("q2_abs")]))
    assert [case.id for case in parsed.cases] == ["q1"]
    assert parsed.skipped_questions == 1


def test_questions_have_a_time_if_the_dataset_states_one() -> None:
    parsed = (
        longmemeval.parse(encoded([haystack("q1")])),
        ours.parse([encoded(OURS)]),
        locomo.parse(encoded(LOCOMO)),
    )
    assert [each.cases[0].questions[0].asked_at for each in parsed] == [
        datetime(2023, 5, 30, 22, 53, tzinfo=UTC),
        datetime(2025, 2, 1, tzinfo=UTC),
        None,
    ]


def test_a_sample_keeps_the_shares_of_the_types_and_is_deterministic() -> None:
    kinds = ["common"] * 20 + ["usual"] * 10 + ["rare"] * 2
    content = encoded([haystack(f"q{number}", kind) for number, kind in enumerate(kinds)])
    drawn = longmemeval.parse(content, sample=16).cases
    counts = [sum(case.questions[0].category == kind for case in drawn) for kind in ("common", "usual", "rare")]
    assert counts == [10, 5, 1]
    assert drawn == longmemeval.parse(content, sample=16).cases
    assert len(longmemeval.parse(content, sample=1000).cases) == len(kinds)


@pytest.mark.parametrize(("name", "value"), [("locomo", LOCOMO), ("longmemeval", [haystack("q1")]), ("ours", OURS)])
def test_a_file_may_be_plain_or_compressed(tmp_path: Path, name: BenchmarkName, value: object) -> None:
    plain, packed = tmp_path / "data.json", tmp_path / "data.json.xz"
    plain.write_bytes(encoded(value))
    packed.write_bytes(lzma.compress(encoded(value)))
    one = load(BenchOptions(benchmark=name, file=plain))
    assert one == load(BenchOptions(benchmark=name, file=packed))
    assert len(one.cases) == 1


def test_the_sample_is_packaged() -> None:
    dataset = load(BenchOptions(benchmark="sample"))
    assert [case.id for case in dataset.cases] == ["conv_a1", "conv_b1"]
    assert load(BenchOptions(benchmark="sample", limit=1)).cases == dataset.cases[:1]


def test_an_ablation_runs_over_the_chosen_dataset() -> None:
    asked = BenchOptions(benchmark="ablation", dataset="sample", limit=1)
    assert load(asked) == load(BenchOptions(benchmark="sample", limit=1))


def test_speed_has_no_dataset() -> None:
    with pytest.raises(InvalidInput, match="speed has no conversations"):
        load(BenchOptions(benchmark="speed"))


def test_the_error_for_a_missing_data_folder_names_the_options(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--data FOLDER") as raised:
        load(BenchOptions(benchmark="locomo", data=tmp_path / "nowhere"))
    assert "benchmark sample" in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"{}", b'[{"sample_id": 1}]', b"\xff\xfe"])
def test_a_file_in_another_format_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    for name in ("locomo", "longmemeval", "ours"):
        with pytest.raises(InvalidInput, match="cannot be parsed"):
            load(BenchOptions(benchmark=name, file=path))


def test_a_stratified_sample_needs_question_types() -> None:
    with pytest.raises(InvalidInput, match="limit"):
        load(BenchOptions(benchmark="sample", sample=3))


def test_a_limit_of_zero_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        load(BenchOptions(benchmark="sample", limit=0))
