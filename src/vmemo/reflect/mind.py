"""A reflection from question to result: the answer, in the caller's shape where one is wanted, and what is believed."""

from __future__ import annotations

from dataclasses import dataclass

from vmemo.asking.desk import Desk
from vmemo.asking.prompts import load, quoted
from vmemo.models import BankId
from vmemo.reflect.answer import Sight, Thought, concluded, think, unknown
from vmemo.reflect.briefing import PROMPTS, STEP, Question
from vmemo.reflect.forming import Writer, form
from vmemo.reflect.reckoning import asked_on
from vmemo.reflect.structured import Form, fill
from vmemo.reflect.telling import Overheard, Tell, Teller, silent
from vmemo.reports import Answer


@dataclass(frozen=True, kw_only=True)
class Mind:
    """Who reflects: a bank, what it can see, who is asked, and how opinions are written down."""

    bank: BankId
    sight: Sight
    desk: Desk
    writer: Writer


def engine(model: str) -> str:
    """What an opinion records of its origin."""
    return f"{model}/{load(PROMPTS, STEP).label}"


def told(desk: Desk, tell: Tell) -> tuple[Desk, Teller]:
    """A desk at which answers are told while they are written, if anybody listens."""
    teller = Teller(tell, STEP)
    return desk if tell is silent else Desk(Overheard(desk.llm, teller)), teller


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


async def _filled(wanted: Form, question: Question, answer: Answer, desk: Desk) -> object:
    facts = (*answer.facts, *answer.observations, *answer.opinions)
    asked = {"today": asked_on(question.asked), "question": quoted([question.text])}
    return await fill(wanted, answer.plain, facts, desk, **asked)


async def _believing(question: Question, thought: Thought, answer: Answer, mind: Mind) -> Answer:
    formed = await form(mind.bank, thought, question.asked, mind.writer)
    return answer.model_copy(update={"formed": formed.opinions, "moved": formed.moves})
