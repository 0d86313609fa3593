"""A reflection from question to result: the answer, in the caller's shape where one is wanted, and what is believed."""

from __future__ import annotations

from dataclasses import dataclass

from vmemo.llm.prompt_files import quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId
from vmemo.models.results import Answer
from vmemo.ports import Context
from vmemo.reflect.answer import Sight, Thought, concluded, think, unknown
from vmemo.reflect.date_math import asked_on
from vmemo.reflect.opinion_formation import form
from vmemo.reflect.prompt_building import STEP, Question
from vmemo.reflect.schema_answer import Form, fill
from vmemo.reflect.streaming import Overheard, Tell, Teller, silent


@dataclass(frozen=True, kw_only=True)
class Mind:
    """Who reflects: a bank, what it can see, who is asked, and how opinions are written down."""

    bank: BankId
    sight: Sight
    desk: StructuredLLM
    context: Context


def told(desk: StructuredLLM, tell: Tell) -> tuple[StructuredLLM, Teller]:
    """A desk at which answers are told while they are written, if anybody listens."""
    teller = Teller(tell, STEP)
    return desk if tell is silent else StructuredLLM(Overheard(desk.llm, teller)), teller


async def reflect(question: Question, mind: Mind, teller: Teller, wanted: Form | None) -> Answer:
    """Answer, fill in the caller's form, and write down what is now believed."""
    thought = await think(question, mind.sight, mind.desk, teller)
    if thought is None:
        answer = unknown(question.text)
        teller.end(answer.text)
        return answer
    answer = concluded(question, thought)
    teller.end(answer.text)
    if wanted is not None and answer.found and not answer.extractive:
        answer = answer.model_copy(update={"data": await _filled(wanted, question, answer, mind.desk)})
    if question.judges and not answer.extractive:
        answer = await _believing(question, thought, answer, mind)
    return answer.model_copy(update={"usage": mind.desk.usage})


async def _filled(wanted: Form, question: Question, answer: Answer, desk: StructuredLLM) -> object:
    facts = (*answer.facts, *answer.observations, *answer.opinions)
    asked = {"today": asked_on(question.asked), "question": quote([question.text])}
    return await fill(wanted, answer.plain, facts, desk, **asked)


async def _believing(question: Question, thought: Thought, answer: Answer, mind: Mind) -> Answer:
    formed = await form(mind.bank, thought, question.asked, mind.context)
    return answer.model_copy(update={"formed": formed.opinions, "moved": formed.moves})
