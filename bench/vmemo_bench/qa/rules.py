"""What the judges are told of each kind of question, on top of what holds for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from vmemo_bench.datasets import Question
from vmemo_bench.qa.records import Judge

Rule = Literal["fact", "inference", "temporal", "update", "preference", "assistant", "unanswerable"]
RULES: tuple[Rule, ...] = get_args(Rule)

_BY_CATEGORY: Mapping[str, Rule] = {
    "open-domain": "inference",
    "inference": "inference",
    "temporal": "temporal",
    "temporal-reasoning": "temporal",
    "update": "update",
    "knowledge-update": "update",
    "preference": "preference",
    "single-session-preference": "preference",
    "single-session-assistant": "assistant",
}
"""Categories of all datasets that have a rule of their own; the rest ask for facts."""

WORDS: Mapping[Rule, Mapping[Judge, str]] = {
    "fact": {
        "strict": "This question asks for a fact. It is right or it is not.",
        "lenient": "This question asks for a fact. What names the same thing is the same fact.",
    },
    "inference": {
        "strict": """This question asks for a conclusion. The answer must come to the key's conclusion; how sure it is,
and its grounds, may be others, as long as they don't contradict the key. Where the question asks what someone could or
might do, have or like, and the answer suggests several things that can stand side by side, the key's must be among
them.""",
        "lenient": """This question asks for a conclusion. The answer must lean to the same side as the key, or name
what the key names among what it suggests; how sure it is, and on what grounds, does not matter.""",
    },
    "temporal": {
        "strict": """This question is about time. A date may be written in any form, and a time that follows from the
answer together with the day of the question counts as said. It must be as exact as the key: the same day where the key
names a day, the same month where it names a month, the same number where it counts. A more exact time inside the one
that the key names is fine.""",
        "lenient": """This question is about time. A date may be written in any form, and a time that follows from the
answer together with the day of the question counts as said. Off by one (a day for dates, one unit for counted days,
weeks, months or years) is forgiven, and so is a coarser time that holds the key's, unless the question asks for the
very day.""",
    },
    "update": {
        "strict": """This question is about something that changed. The answer must give the key's value as the one that
holds. An older value beside it does no harm if it is clear that it no longer holds.""",
        "lenient": """This question is about something that changed. The answer must give the key's value; older values
beside it do no harm, as long as it is not one of them that the answer settles on.""",
    },
    "preference": {
        "strict": """This question asks for advice, and the key is no answer: it describes what a fitting answer builds
on and what it avoids. The answer is correct if it builds on everything that the key names as known of the person, and
proposes nothing that the key rules out. Its proposals themselves are free.""",
        "lenient": """This question asks for advice, and the key is no answer: it describes what a fitting answer builds
on and what it avoids. The answer is correct if it plainly builds on something personal that the key names and does not
go against the key as a whole. General advice that would suit anybody is not correct.""",
    },
    "assistant": {
        "strict": """This question is about what the assistant itself said earlier. Names, numbers and wordings that the
key repeats must be the same in the answer.""",
        "lenient": """This question is about what the assistant itself said earlier. The answer must tell the same, but
not word for word.""",
    },
    "unanswerable": {
        "strict": """This question can't be answered: what it asks for was never told, or it takes for granted what is
not so. Here the rules above are turned round. The answer is correct only if it says that what is asked for is not
known, was not told or is not so, and gives no answer to the question all the same, not even as a guess. What else it
names as known does no harm, not even the key's wrong answer, if that is told of whom or what it is true of. The key,
where there is one, tells what is missing, and perhaps an answer that would be wrong.""",
        "lenient": """This question can't be answered: what it asks for was never told, or it takes for granted what is
not so. Here the rules above are turned round. The answer is correct if it makes clear that what is asked for is not
known, was not told or is not so. What else it names as known, and a guess that is called one, do no harm. The key,
where there is one, tells what is missing, and perhaps an answer that would be wrong.""",
    },
}


def rule_of(question: Question) -> Rule:
    """Which rule a question is judged by."""
    return _BY_CATEGORY.get(question.category, "fact") if question.answerable else "unanswerable"
