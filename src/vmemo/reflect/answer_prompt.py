"""The prompt of a reflection: character, rules, guidance by question type, evidence and lookups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import AnswerSchema
from vmemo.models import Disposition, Profile, QueryType, Stance
from vmemo.models.results import MemoryLookup
from vmemo.ports import LLMRequest
from vmemo.reflect.citations import escape_marks
from vmemo.reflect.date_math import question_date
from vmemo.reflect.evidence import Evidence, asker
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.questions.types import asks_for_former_state

ShortText = Annotated[str, Field(max_length=2000)]
LooseText = Annotated[str, Field(max_length=100_000)]
"""A secondary text, truncated or dropped later, so that its length does not make the whole answer invalid."""


class OpinionAssessment(AnswerSchema):
    """The effect of new facts on one opinion."""

    opinion: str = Field(description="O number of the opinion")
    stance: Stance
    evidence: list[str] = Field(default_factory=list[str], description="F numbers of the facts that matter")
    reason: ShortText = ""


class FormedOpinion(AnswerSchema):
    """An opinion in the answer."""

    text: LooseText = Field(
        description="one sentence in the first person that can be understood on its own and includes the reason"
    )
    confidence: float | None = Field(default=None, description="from 0 to 1")
    facts: list[str] = Field(default_factory=list[str], description="F and S numbers that support it")
    instead_of: str = Field(default="", description="O number of the held opinion that it replaces")


class DateRange(AnswerSchema):
    """The first and the last date of a length of time."""

    start: str = Field(description="YYYY-MM-DD")
    end: str = Field(description="YYYY-MM-DD")


class GeneratedAnswer(AnswerSchema):
    """An answer from memory, or the lookups needed first."""

    look_for: list[LooseText] = Field(default_factory=list[LooseText])
    steps: list[LooseText] = Field(default_factory=list[LooseText])
    found: bool = True
    spans: list[DateRange] = Field(default_factory=list[DateRange])
    text: Annotated[str, Field(max_length=20_000)]
    opinions: list[FormedOpinion] = Field(default_factory=list[FormedOpinion])
    revised: list[OpinionAssessment] = Field(default_factory=list[OpinionAssessment])


_SKEPTICISM: Mapping[int, str] = {
    1: "You trust people: what you hear counts as true unless something clearly contradicts it.",
    2: "You are rather trusting: you give claims the benefit of the doubt unless the stakes are high.",
    3: "You weigh claims: you accept plain reports, and want support for bold ones.",
    4: "You are rather skeptical: you ask who said it, how they know and what else supports it, and you separate "
    "claims from findings.",
    5: "You are deeply skeptical: one source settles nothing, you look for gaps and contrary evidence, and you state "
    "every doubt.",
}
_LITERALISM: Mapping[int, str] = {
    1: "You read freely between the lines: intention matters far more than the exact words.",
    2: "You interpret words loosely: you follow the likely intention, and use hints and context.",
    3: "You take words in their usual sense, and add only what the context makes clear.",
    4: "You stay close to the wording: you rely on what was said, and say clearly when you go beyond it.",
    5: "You take words literally: you add no implied meaning, and answer exactly what was asked.",
}
_EMPATHY: Mapping[int, str] = {
    1: "You are detached: feelings do not affect your judgement, and you are blunt and brief.",
    2: "You are matter-of-fact: the task comes first, and you mention feelings only if they change the outcome.",
    3: "You balance the subject matter with what it means to the people involved.",
    4: "You are considerate: you think about how the people involved feel, and choose your words with care.",
    5: "You are deeply empathetic: people's feelings and needs weigh heavily, and you speak warmly and spare them "
    "embarrassment.",
}
_BIAS: tuple[tuple[float, str], ...] = (
    (0.2, "Show this character in your tone only; base your judgement on the facts alone."),
    (0.4, "Let this character influence your judgement slightly, where the facts leave a choice."),
    (0.6, "Let this character and the facts share your judgement: it decides what matters to you, they decide what is "
     "true."),
    (0.8, "Let this character shape your judgement clearly: say what you think, and why it matters to you."),
    (1.0, "Be openly opinionated, as this character would be: take a position, and state it strongly."),
)  # fmt: skip
"""Instructions by the highest bias they apply to."""
_FACTS_ONLY = (
    "Answer with facts only, and with what follows from them: no opinions, no preferences and no personal tone, even "
    "if the question invites them."
)


def describe_disposition(disposition: Disposition) -> str:
    """Return the instructions for a disposition's three traits."""
    traits = (
        _SKEPTICISM[disposition.skepticism],
        _LITERALISM[disposition.literalism],
        _EMPATHY[disposition.empathy],
    )
    return " ".join(traits)


def describe_bias(bias: float) -> str:
    """Return the instructions for a bias from 0, facts only, to 1, openly opinionated."""
    return _FACTS_ONLY if bias <= 0 else next(words for highest, words in _BIAS if bias <= highest)


def describe_character(profile: Profile) -> str:
    """Return the instructions for a profile. Without bias, its disposition has no effect and is left out."""
    if profile.bias <= 0:
        return describe_bias(0)
    limit = "Your character affects what you think of the facts, never the facts themselves."
    return f"{describe_disposition(profile.disposition)}\n{describe_bias(profile.bias)} {limit}"


PROMPTS = Path(__file__).parent / "prompts"
STEP = "reflect"
"""The step of the call that generates the answer."""
MAX_QUERIES = 3
"""Lookup queries in one round."""

GUIDANCE_BY_TYPE: Mapping[QueryType, str] = {
    "temporal": """This question is about time.
- Use the date of the event, not that of its mention. If only a week, month or year is known, give just that.
- For a length of time, put each event with its date in `steps`, and both dates in the answer.
- If a date was changed later, the plan and its change are both asked for: give the length by the first dates and then
  by the changed ones, each with its dates, and say when it changed.""",
    "update": """This question is about the current state. The latest value is valid; name a former one only to say
that it changed.""",
    "change": """This question asks how something changed. In `steps`, list every version with its date, oldest first,
former ones included. Then describe the course: each version with its date, the reason for the change if it is known,
and what is valid now. If a number of items is asked for, give a numbered list of exactly so many.""",
    "count": """This question asks for a number, a sum or a frequency.
- If a memory states just this number, use it, the latest one if it changed, and add only what was added to the same
  count later. But parts add up: sums of single weeks, trips or purchases, and items of different days. "In total",
  "altogether" and "across" ask for that.
- Otherwise list in `steps` every item that counts, with its date and mark, from all memories, oldest first. Go through
  every line: one line may hold several items. The same item said again or in other words is one item; one that was
  dropped or replaced later does not count as current. Then count or add up, and name the items in the answer.
- Count what people said themselves, unless your own proposals are asked for. Count at the level that the question
  names: several reports of one problem are one, and if it names the fields to look in, each of them is one item unless
  clearly different ones belong to it. Settle on one number, in the sense that fits the words of the question best.
- If the question limits the time, the date of the event decides. A date after "=" was computed from the words before it
  and may be wrong.
- Each person, thing or place that the question names needs a memory of its own: look for one that has none.""",
    "multi-hop": """This question needs several memories. For a list, give every matching item once, with its mark. For
a comparison, give both sides with their values. For a chain from one person or thing to the next, write each link in
`steps`, and say which one is missing.""",
    "preference": """This question asks for advice, or for what somebody would like. Advice may come from general
knowledge. Fit it to what is known of the persons concerned: restrictions, likes, dislikes, plans, possessions. Say what
you build on, and propose nothing that contradicts it.""",
    "assistant": """This question is about what you said or did before. Repeat names, numbers and lists exactly as you
gave them.""",
    "ordering": """This question asks for an order. The facts are listed in the order in which they were said, under the
day on which they were said. A line that begins with a verb is what the person wanted to do or asked for.
- First find what belongs to the question. If it names one thing, one person or certain events, leave everything else
  out; if it names a whole field, such as a project, a career or somebody's progress, all of that field belongs to it.
- Order by first mention if it asks what was brought up or discussed, and by the dates of the events otherwise.
- Give a numbered list. Name each matter by the thing and what it was about: a choice, a plan, an error, a test, a fix,
  a faster way, somebody's answer. "Trouble with the login token" is a matter, "the login" is not.
- Without a number of items, each matter is a line of its own. If a number is asked for, give exactly so many lines,
  spread from the first day to the last. If there are more matters than lines, a line has all that were first mentioned
  in its time, in their order, each in three to eight words. A matter left out is worse than a long line; leave out
  numbers and results instead.""",
    "summary": """This question asks for a summary. The facts come from all sessions on the subject, in order of time. A
line that begins with a verb is what the person wanted to do or asked for; a line of yours after it is the outline of
your reply.
- Go through every day, up to where things stand now, with every part that the question names. Give each matter that
  belongs to the question a clause or two: what the person wanted, planned, decided, tried or reported, and after it two
  to four points of your reply by name: they say how the matter was approached. Leave out what does not belong to it.
- Problems and errors matter most: name each one, and the means by which it was solved, in one sentence. Keep names,
  relations of persons, versions, numbers, dates and methods. Say what changed later.
- Be complete rather than short: a long course has a long summary. Join matters that recur instead of dropping some. Put
  at most two marks after a clause.""",
    "contradiction": """This is a question of yes or no. In `steps`, list the memories that speak for yes and those that
speak for no. If both are there, begin by saying that memory holds contradictory information, quote both with their
dates, and ask which one is correct; if the yes is of a later day than the no, add that it may be new. A plan that was
moved or a number that changed is an update and no contradiction. Otherwise answer yes or no.""",
    "instruction": """This question asks you to explain, show or write something. Do so completely, with general
knowledge, fitted to what memory says about the person: project, tools, versions, preferences. `found` is true if any
memory contributed.""",
    "factual": """Answer exactly what is asked, with full names, places, titles and numbers; if several items match,
give all of them.""",
    "general": """Say what memory holds about this, the most informative first.""",
}
"""Additional instructions by question type."""

FORMER_STATE = """This question asks for an earlier state: what held, or was planned, before something changed. Former
facts answer it. Say what it changed to in a clause at most."""
"""Guidance for questions about what held before a change, and an addition to that of other types."""

COMPUTED_TIMES = """
- Lengths beside facts and under Times are right for the dates that they name. Which date is that of the event is for
  you to judge. If the length that you need is missing, calculate it yourself.
- A date after "=" was computed from the words before it and may be wrong: if an earlier statement about the same event
  rules it out, the earlier one holds."""
"""Guidance that is added if durations are computed."""

_LOOKUPS = """\
- `look_for`: only if a part of the answer is missing and memory may hold it: up to {most} short queries, each about one
  thing and worded unlike earlier ones, with the words that a memory of it would have. Not to confirm what is shown, and
  not for general knowledge. Then `found` is null, `steps` is [] and `text` is "". {left} more {rounds} allowed."""
_SPANS = """\
- `spans`: the first and the last date of each length of time that you calculated, as YYYY-MM-DD."""
_OPINIONS = """\
- `opinions`: only if the question asks what you think, prefer, expect or advise: the opinion in your answer, as one
  sentence in the first person ("I think ... because ..."), with your `confidence` from 0 to 1 and the `facts` that
  support it. Do not repeat an opinion you already hold; if you changed your mind, name the opinion that the new one
  replaces in `instead_of`."""
_REVISED = """\
- `revised`: the opinions shown above that the shown facts affect: `reinforce`, `weaken` or `contradict`, with the F
  numbers as `evidence`."""
_MARK_RULES = {
    "F": """\
- Facts (F numbers) are evidence. Those marked "yours" are your own proposals, examples and drafts: what people say
  themselves outranks them, and none of them is something that a person decided or did. Of "former" ones only what a
  later fact changed is outdated; the rest may still hold.""",
    "S": "- Observations (S numbers) are summaries of facts.",
    "O": "- Opinions (O numbers) are your earlier conclusions. They are not evidence; present them as your view.",
    "B": "- Cite what you know about yourself from your background as [B].",
}
_INSTRUCTIONS = """\

- The user's standing instructions are listed first. One that names a subject applies if the question asks about that
  subject, also if it does not ask for what the instruction adds; a subject that only occurs in a list, an order, a
  summary or a number is not asked about. One without a subject applies to every answer. Follow all that apply, in the
  form and the content of your answer, even against the rule before this one; of two that differ, the first is newer. If
  memory lacks what one asks for, do not mention it. They change no other rule and are no evidence."""
_SAID_IN_ORDER = ", in the order in which they were said, shortened where … stands"
_HEADINGS = {"F": "Facts", "S": "Observations", "O": "Your opinions"}
_JUDGEMENT = LazyPattern(
    r"\b(?:you|your)\b.{0,60}\b(?:think|opinion|views?|believe|expect|feel|prefer|advice|advise|recommend|suggest|like|"
    r"guess|reckon|take|stance|favou?rite)\b|\b(?:should|would|could|might|likely|probably|better|best|worth|will|fair|"
    r"right|wrong|good|bad|convincing|trust)\b",
    re.IGNORECASE,
)
_PLAIN_TYPES: frozenset[QueryType] = frozenset(
    ("temporal", "update", "change", "count", "assistant", "ordering", "summary")
)
"""Types of questions that ask for no opinion, unless their words do."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, the profile that answers it, and the limits of the reflection."""

    text: str
    asked_at: datetime
    profile: Profile
    max_tokens: int
    max_lookups: int
    opinions: bool
    """True if the answer may form opinions and change the confidence of held ones."""

    users: frozenset[str | None] = frozenset()
    """Names of users who speak in the bank, and None for a user without a name, as far as they are known."""

    def asks_for_opinion(self, type: QueryType) -> bool:
        """Return True if the answer may form opinions and the question may ask for one."""
        return self.opinions and (type not in _PLAIN_TYPES or _JUDGEMENT.search(self.text) is not None)


def instructions(question: Question, type: QueryType) -> str:
    """Return the texts that an answer must not repeat."""
    system, character = load_prompt(PROMPTS, STEP).system.template, describe_character(question.profile)
    fixed = (FORMER_STATE, _INSTRUCTIONS, COMPUTED_TIMES, _LOOKUPS, _SPANS, _OPINIONS, _REVISED, *_MARK_RULES.values())
    return "\n".join((system, character, GUIDANCE_BY_TYPE[type], *fixed))


def guidance(question: str, type: QueryType) -> str:
    """Return the additional instructions for a question of a type."""
    if type not in ("update", "factual", "temporal", "multi-hop") or not asks_for_former_state(question):
        return GUIDANCE_BY_TYPE[type]
    return FORMER_STATE if type == "update" else f"{GUIDANCE_BY_TYPE[type]}\n{FORMER_STATE}"


def build_ask(
    question: Question, evidence: Evidence, type: QueryType, lookups: Sequence[MemoryLookup], rounds_left: int
) -> LLMRequest:
    """Return the LLM call; `rounds_left` is the number of lookup rounds that are still allowed.

    Fields that this question has no use for are neither explained nor in the schema.
    """
    name = asker(question.text, evidence.sources, question.users)
    rounds = "round is" if rounds_left == 1 else "rounds are"
    used = {
        "look_for": _LOOKUPS.format(most=MAX_QUERIES, left=rounds_left, rounds=rounds) if rounds_left else "",
        "spans": _SPANS if evidence.durations else "",
        "opinions": _OPINIONS if question.asks_for_opinion(type) else "",
        "revised": _REVISED if question.opinions and evidence.has("O") else "",
    }
    request = load_prompt(PROMPTS, STEP).request(
        GeneratedAnswer,
        name=" ".join(question.profile.name.split()),
        character=describe_character(question.profile),
        marks="\n".join(_MARK_RULES[letter] for letter in _letters(question, evidence)),
        instructions=_INSTRUCTIONS if evidence.instructions else "",
        exception=", the user's standing instructions excepted" if evidence.instructions else "",
        guidance=guidance(question.text, type) + (COMPUTED_TIMES if evidence.durations else ""),
        before="".join(f"{used[name]}\n" for name in ("look_for",) if used[name]),
        after="".join(f"\n{used[name]}" for name in ("spans", "opinions", "revised") if used[name]),
        today=question_date(question.asked_at),
        question=quote([escape_marks(f"{name}: {question.text}" if name else question.text)]),
        memory="\n\n".join(_sections(question, evidence, lookups)),
    )
    return replace(request, schema=_without(request.schema, [name for name, words in used.items() if not words]))


def _without(schema: Mapping[str, JsonValue], unused: Sequence[str]) -> Mapping[str, JsonValue]:
    """Return a schema without some fields, and without the definitions that only they use."""
    properties = schema["properties"]
    assert isinstance(properties, dict)
    kept = {name: value for name, value in properties.items() if name not in unused}
    text, definitions = json.dumps(kept), schema.get("$defs")
    assert isinstance(definitions, dict)
    used = {name: value for name, value in definitions.items() if f"/{name}" in text}
    rest = {key: value for key, value in schema.items() if key not in ("properties", "$defs")}
    return {**rest, "properties": kept, **({"$defs": used} if used else {})}


def _letters(question: Question, evidence: Evidence) -> Iterator[str]:
    yield "F"
    yield from (letter for letter in ("S", "O") if evidence.has(letter))
    if question.profile.background:
        yield "B"


def _sections(question: Question, evidence: Evidence, lookups: Sequence[MemoryLookup]) -> Iterator[str]:
    if evidence.instructions:
        yield "The user's standing instructions, newest first:\n" + quote(
            escape_marks(f"{fact.mentioned_at:%d %B %Y} | {fact.text}") for fact in evidence.instructions
        )
    if question.profile.background:
        background = quote([escape_marks(question.profile.background)])
        yield f"Your background (mark B):\n{background}"
    for letter, heading in _HEADINGS.items():
        if letter == "F" or evidence.has(letter):
            order = _SAID_IN_ORDER if evidence.chronological and letter == "F" else ""
            yield f"{heading}{order}:\n{evidence.render(letter)}"
    if differences := evidence.differences():
        yield "Times, computed from the dates in the facts:\n" + "\n".join(differences)
    if lookups:
        lines = [f"{each.query} | {each.found or 'nothing'} new" for each in lookups]
        yield "Earlier lookups, whose results are shown above:\n" + quote(lines)


def engine_label(model: str) -> str:
    """Return the engine recorded with an opinion: the model and the prompt's version."""
    return f"{model}/{load_prompt(PROMPTS, STEP).label}"
