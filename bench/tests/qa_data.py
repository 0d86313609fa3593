"""Short conversations with answers, and a model that answers and judges by a script."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue

from vmemo_bench import BenchOptions, QaOptions
from vmemo_bench.options import DatasetName
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import ReceivedRequest, Refusal

TURNS = {
    1: ("Ada", "I bought a red kite in Porto.", "Bo", "Lovely! I adopted a beagle called Tofu."),
    2: ("Ada", "I sold my kite and bought a canoe.", "Bo", "My rent is 950 now."),
    3: ("Ada", "The canoe cost 700 and I love rivers.", "Bo", "Tofu learned to swim."),
}
DAYS = {1: "1:56 pm on 8 May, 2023", 2: "10:00 am on 1 June, 2023", 3: "9:15 am on 20 June, 2023"}


@dataclass(frozen=True)
class ScriptedAnswer:
    """The scripted answer to a question, words of the fact it cites, and the correct answer."""

    says: str
    cites: str
    gold: str | int | None
    found: bool = True


ANSWERS: Mapping[str, ScriptedAnswer] = {
    "What did Ada buy in Porto?": ScriptedAnswer("She bought a red kite.", "red kite", "a red kite"),
    "When did Ada sell her kite?": ScriptedAnswer("On 2 June 2023.", "sold my kite", "1 June 2023"),
    "What did the canoe cost?": ScriptedAnswer("It cost 700.", "canoe cost", 700),
    "Would Ada enjoy rafting?": ScriptedAnswer("Likely yes, she loves rivers.", "love rivers", "Likely yes"),
    "What is the name of Ada's beagle?": ScriptedAnswer("I don't know of a beagle of Ada's.", "", None, found=False),
    "Is Tofu Ada's dog?": ScriptedAnswer("No, Tofu is Bo's.", "called Tofu", "No"),
    "Who swims?": ScriptedAnswer("A cat does.", "learned to swim", "Tofu the beagle"),
    "What colour is the canoe?": ScriptedAnswer("It is red.", "canoe cost", None),
}
CATEGORY = {
    "What did Ada buy in Porto?": 4,
    "When did Ada sell her kite?": 2,
    "What did the canoe cost?": 1,
    "Would Ada enjoy rafting?": 3,
    "What is the name of Ada's beagle?": 5,
    "Is Tofu Ada's dog?": 5,
    "Who swims?": 4,
    "What colour is the canoe?": 5,
}
EVIDENCE = {
    "What did Ada buy in Porto?": ["D1:1"],
    "When did Ada sell her kite?": ["D2:1"],
    "What did the canoe cost?": ["D3:1"],
    "Would Ada enjoy rafting?": [],
    "What is the name of Ada's beagle?": ["D1:2"],
    "Is Tofu Ada's dog?": ["D1:2"],
    "Who swims?": ["D3:2"],
    "What colour is the canoe?": ["D3:1"],
}
LURES = {"What is the name of Ada's beagle?": "Tofu", "Is Tofu Ada's dog?": "Yes", "What colour is the canoe?": "red"}


def _asked(question: str) -> dict[str, object]:
    whole: dict[str, object] = {
        "question": question,
        "category": CATEGORY[question],
        "evidence": EVIDENCE[question],
    }
    if ANSWERS[question].gold is not None:
        whole["answer"] = ANSWERS[question].gold
    if question in LURES:
        whole["adversarial_answer"] = LURES[question]
    return whole


def _conversation(name: str, sessions: Sequence[int], questions: Sequence[str]) -> dict[str, object]:
    sessions_by_key: dict[str, object] = {}
    for n in sessions:
        one, first, other, second = TURNS[n]
        sessions_by_key[f"session_{n}_date_time"] = DAYS[n]
        sessions_by_key[f"session_{n}"] = [
            {"speaker": one, "dia_id": f"D{n}:1", "text": first},
            {"speaker": other, "dia_id": f"D{n}:2", "text": second},
        ]
    return {"sample_id": name, "conversation": sessions_by_key, "qa": [_asked(question) for question in questions]}


def _haystack(name: str, kind: str, question: str, answer: JsonValue) -> dict[str, object]:
    kite = [
        {"role": "user", "content": "I bought a red kite in Porto.", "has_answer": True},
        {"role": "assistant", "content": "Enjoy it!"},
    ]
    return {
        "question_id": name,
        "question_type": kind,
        "question": question,
        "question_date": "2023/05/30 (Tue) 22:53",
        "answer": answer,
        "answer_session_ids": ["kite"],
        "haystack_dates": ["2023/05/20 (Sat) 10:44", "2023/05/19 (Fri) 09:00"],
        "haystack_session_ids": ["kite", "soup"],
        "haystack_sessions": [kite, [{"role": "user", "content": "How long does soup keep?"}]],
    }


LOCOMO = [
    _conversation("conv-x", (1, 2, 3), list(ANSWERS)[:6]),
    _conversation("conv-y", (1, 3), list(ANSWERS)[6:]),
]
LONGMEMEVAL = [
    _haystack("q1", "single-session-user", "What did Ada buy in Porto?", "a red kite"),
    _haystack("q2", "temporal-reasoning", "When did Ada sell her kite?", "1 June 2023"),
    _haystack("q3_abs", "single-session-user", "What is the name of Ada's beagle?", "You did not mention a beagle."),
]
QUESTIONS = len(ANSWERS)
_QUESTION = re.compile(r"(?:was asked|asked) on [^\n]*:\n<<\w+\n(.*)\n\w+>>")
_QUOTED = re.compile(r"<<(\w+)\n(.*?)\n\1>>", re.DOTALL)


@dataclass
class ScriptedModel:
    """Answers and judges; refuses to answer the questions in `fails`, and to judge those in `fails_to_judge`.

    The strict judge requires the correct answer word for word, the lenient one also accepts the next day.
    """

    answers: Mapping[str, ScriptedAnswer] = field(default_factory=lambda: dict(ANSWERS))
    fails: set[str] = field(default_factory=set[str])
    fails_to_judge: set[str] = field(default_factory=set[str])
    asked: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, received: ReceivedRequest) -> JsonValue | Refusal:
        match = _QUESTION.search(received.user)
        assert match is not None, received.user
        question = match[1]
        with self._lock:
            self.asked[received.step, question] += 1
        if received.step == "reflect":
            return Refusal() if question in self.fails else self._answer(question, received.user)
        return Refusal() if question in self.fails_to_judge else self._judge(question, received)

    def count(self, step: str) -> int:
        """Return the number of calls of a step."""
        return sum(count for (name, _), count in self.asked.items() if name == step)

    def _answer(self, question: str, user: str) -> JsonValue:
        known = self.answers[question]
        facts = [line for line in user.splitlines() if re.match(r"F\d+ ", line)]
        mark = next((line.split()[0] for line in facts if known.cites and known.cites in line), None)
        cited = f" [{mark}]" if mark else ""
        return {"calls": [], "steps": [f"I read it{cited}."], "found": known.found, "text": known.says + cited}

    def _judge(self, question: str, received: ReceivedRequest) -> JsonValue:
        *_, (_, key), (_, given) = _QUOTED.findall(received.user)
        declines = "cannot be answered" in received.system
        right = "don't know" in given if declines else key.lower() in given.lower()
        forgiven = right or (key == "1 June 2023" and "2 June" in given)
        reason = f"by the key {key[:30]}"
        if received.step == "judge_both":
            return {"reason": reason, "strict": right, "lenient": forgiven}
        return {"reason": reason, "correct": forgiven if received.step == "judge_lenient" else right}


def write_datasets(folder: Path) -> Path:
    """Write a data folder with both datasets."""
    for name, body in (("locomo/locomo_dev.json", LOCOMO), ("longmemeval/longmemeval_s_dev.json", LONGMEMEVAL)):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(body))
    return folder


def qa_options(folder: Path, benchmark: DatasetName = "locomo", **qa: object) -> BenchOptions:
    """Return options of QA mode over one of the datasets."""
    name = {"locomo": "locomo/locomo_dev.json", "longmemeval": "longmemeval/longmemeval_s_dev.json"}[benchmark]
    return BenchOptions(
        benchmark=benchmark,
        mode="qa",
        file=write_datasets(folder / "data") / name,
        cache=folder / "work",
        work=folder / "work" / "runs",
        embedder=HashEmbedder(),
        qa=replace(QaOptions(), **qa),  # pyright: ignore[reportArgumentType]
    )
