"""The work of every text rule grows at most linearly with its text."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from types import ModuleType

import pytest
from linear_time import Rule, grows_too_fast, texts

from vmemo.llm import structured
from vmemo.reflect import citations
from vmemo.text import (
    corrections,
    injection,
    instructions,
    meta_text,
    own_words,
    procedures,
    questions,
    redact,
    small_talk,
    split,
    tokens,
    wording,
)
from vmemo.text.names import compare, find, lexicon
from vmemo.text.temporal import annotation, find as find_times, grammar, tense

NOW = datetime(2023, 5, 18, 15, 30, tzinfo=UTC)
SPEAKERS = ("Anna", "Will Smith")
OWN_TEXTS = 10
"""Texts per rule that its own regular expressions nearly match."""


def _questions(text: str) -> list[str]:
    return [sentence[0].strip() for sentence in questions.question_sentences(text)]


def _json(text: str) -> object:
    try:
        return structured.find_json(text)
    except structured.InvalidAnswer:
        return None


def _parsed(text: str) -> object:
    try:
        return structured.parse_answer(text, structured.AnswerSchema)
    except structured.InvalidAnswer:
        return None


def _position(text: str) -> tense.ClausePosition:
    return tense.clause_position(text, len(text) // 2, len(text) // 2 + 1)


RULES: dict[str, Rule] = {
    "text.split.split_text": split.split_text,
    "text.corrections.is_correction": corrections.is_correction,
    "text.procedures.find_procedure": lambda text: procedures.find_procedure(text, before=text),
    "text.procedures.is_outcome": procedures.is_outcome,
    "text.procedures.title_of": procedures.title_of,
    "text.temporal.annotation.after_line": lambda text: annotation.after_line("the party", text),
    "text.temporal.annotation.with_date": lambda text: annotation.with_date(text, NOW),
    "text.temporal.annotation.embedded_text": lambda text: annotation.embedded_text(text, NOW),
    "text.injection.addresses_assistant": injection.addresses_assistant,
    "text.injection.contains_instructions": injection.contains_instructions,
    "text.injection.overrides_rules": injection.overrides_rules,
    "text.injection.remove_instructions": injection.remove_instructions,
    "text.injection.repeats_prompt": lambda text: injection.repeats_prompt(text, text, allowed=text),
    "text.instructions.answer_aspects": instructions.answer_aspects,
    "text.instructions.is_for_once": instructions.is_for_once,
    "text.instructions.is_standing": instructions.is_standing,
    "text.instructions.ends_standing": instructions.ends_standing,
    "text.instructions.cues_end": instructions.cues_end,
    "text.names.compare.name_use": lambda text: compare.name_use(text, "Anna", ["Anna", "Anna Smith"]),
    "text.names.compare.names_apart": lambda text: compare.names_apart(text, ["Anna", "Anna Smith"]),
    "text.names.find.find_names": lambda text: find.find_names(text, speakers=SPEAKERS),
    "text.names.find.name_spans": lambda text: list(find.name_spans(text, speakers=SPEAKERS)),
    "text.names.compare.is_title": compare.is_title,
    "text.names.compare.fold_name": compare.fold_name,
    "text.names.compare.folded_names": lambda text: compare.folded_names(text, text.split(" ")),
    "text.names.compare.name_runs": lambda text: list(compare.name_runs(text)),
    "text.names.lexicon.is_foreign": lexicon.is_foreign,
    "text.names.lexicon.is_common_word": inspect.unwrap(lexicon.is_common_word),
    "text.names.lexicon.normalize_word": lexicon.normalize_word,
    "text.names.compare.name_form": inspect.unwrap(compare.name_form),
    "text.names.compare.nicknames": inspect.unwrap(compare.nicknames),
    "text.meta_text.is_grounded": lambda text: meta_text.is_grounded(text, [text], [text]),
    "text.meta_text.is_meta_text": meta_text.is_meta_text,
    "text.small_talk.is_small_talk": small_talk.is_small_talk,
    "text.meta_text.strip_recalled": meta_text.strip_recalled,
    "text.instructions.occasion_terms": instructions.occasion_terms,
    "text.own_words.begins_persona": own_words.begins_persona,
    "text.own_words.foreign_spans": own_words.foreign_spans,
    "text.own_words.quoted_spans": own_words.quoted_spans,
    "text.tokens.term_set": inspect.unwrap(tokens.term_set),
    "text.own_words.own_parts": lambda text: own_words.own_parts(text.split(" ")),
    "text.own_words.own_words": inspect.unwrap(own_words.own_words),
    "text.wording.contains_sentences": lambda text: wording.contains_sentences(text, text),
    "text.wording.content_overlap": lambda text: wording.content_overlap(text, text[::-1], without=text.split()),
    "text.wording.is_second_person": wording.is_second_person,
    "text.wording.lacks_first_person": wording.lacks_first_person,
    "text.wording.lost_clauses": lambda text: wording.lost_clauses(text, text[::-1], text.split()),
    "text.questions.analyse_query": lambda text: questions.analyse_query(text, NOW, report_unresolved=True),
    "text.questions.decompose": lambda text: questions.decompose([text], text.split()),
    "text.questions.question_sentences": questions.question_sentences,
    "text.questions.asks_for_everything": questions.asks_for_everything,
    "text.questions.asks_for_course": questions.asks_for_course,
    "text.questions.query_type": lambda text: questions.query_type(text, _questions(text), timed=False),
    "text.questions.question_tense": lambda text: questions.question_tense(text, None, NOW),
    "text.questions.find_unresolved_times": lambda text: list(
        questions.find_unresolved_times(text, find_times.find_times(text, NOW))
    ),
    "text.redact.redact_secrets": redact.redact_secrets,
    "text.wording.needs_context": lambda text: wording.needs_context(text.split()),
    "text.wording.wording": wording.wording,
    "text.split.claim_spans": split.claim_spans,
    "text.split.sentence_spans": split.sentence_spans,
    "text.split.split_statements": split.split_statements,
    "text.temporal.annotation.annotate": lambda text: annotation.annotate(text, NOW),
    "text.temporal.tense.clause_position": _position,
    "text.temporal.tense.concerns_plan": lambda text: tense.concerns_plan(
        text, "by", tense.clause_position(text, len(text) // 2, len(text))
    ),
    "text.temporal.tense.describes_present": lambda text: tense.describes_present(text, len(text) // 2),
    "text.temporal.annotation.side_examples": lambda text: list(annotation.side_examples(text, NOW)),
    "text.temporal.annotation.date_text": lambda text: annotation.date_text(text, NOW),
    "text.temporal.annotation.with_doubtful": lambda text: annotation.with_doubtful(text, NOW, {0}),
    "text.temporal.annotation.find_statement_times": lambda text: annotation.find_statement_times(text, NOW),
    "text.temporal.tense.opens_clause": lambda text: tense.opens_clause(text, len(text) // 2, _position(text)),
    "text.temporal.tense.is_determined": lambda text: tense.is_determined(text, len(text) // 2),
    "text.temporal.tense.is_modifier": lambda text: tense.is_modifier(text, len(text) // 2, len(text) // 2 + 1),
    "text.temporal.tense.is_question": lambda text: tense.is_question(text, _position(text)),
    "text.temporal.tense.precedes_noun": lambda text: tense.precedes_noun(text, len(text) // 2),
    "text.temporal.tense.is_habitual": lambda text: tense.is_habitual(text, _position(text)),
    "text.temporal.tense.leading_word": lambda text: tense.leading_word(text, len(text) // 2, len(text)),
    "text.temporal.tense.sentence_bounds": lambda text: tense.sentence_bounds(text, len(text) // 2, len(text)),
    "text.temporal.find.find_times": lambda text: find_times.find_times(text, NOW),
    "text.temporal.find.lower_same_length": find_times.lower_same_length,
    "text.temporal.find.parse_both": lambda text: find_times.parse_both(text, NOW),
    "text.temporal.tense.find_cues": lambda text: tense.find_cues(text, [(0, len(text))]),
    "text.temporal.grammar.tokenize": grammar.tokenize,
    "text.tokens.query_terms": tokens.query_terms,
    "text.tokens.terms": tokens.terms,
    "reflect.citations.cited_marks": citations.cited_marks,
    "reflect.citations.complete_part": citations.complete_part,
    "reflect.citations.escape_marks": citations.escape_marks,
    "reflect.citations.parse_marks": lambda text: citations.parse_marks(text.split(" ")),
    "reflect.citations.resolve_citations": lambda text: citations.resolve_citations(text, lambda mark: mark),
    "reflect.citations.unknown_marks": lambda text: citations.unknown_marks(text, ("F1",)),
    "reflect.citations.without_citations": citations.without_citations,
    "text.questions.asks_for_profile": questions.asks_for_profile,
    "llm.structured.find_json": _json,
    "llm.structured.parse_answer": _parsed,
}
"""Every rule as a function of a text."""
NOT_RULES = {
    "text.temporal.annotation.speaker_in": "divides a text once",
    "text.names.lexicon.full_forms": "looks a word up",
    "text.names.lexicon.short_forms": "looks a word up",
    "text.temporal.tense.tense_of": "called by annotate for each time expression",
    "text.temporal.format.count_noun": "formats a number",
    "text.temporal.find.time_expression": "called by find_times for each time expression",
    "text.pattern_files.read_patterns": "reads a file",
    "text.temporal.grammar.compile_pattern": "reads the patterns of the grammar",
    "text.temporal.grammar.rules_of": "reads the patterns of the grammar",
    "text.temporal.grammar.tags_of": "reads the patterns of the grammar",
}
"""Functions with a text among their arguments that are not tried by themselves, and the reason."""


def _modules() -> Iterator[ModuleType]:
    package = importlib.import_module("vmemo.text")
    for module in pkgutil.walk_packages(package.__path__, "vmemo.text."):
        yield importlib.import_module(module.name)
    yield from (citations, structured)


def _functions_of_texts() -> Iterator[str]:
    for module in _modules():
        for name, value in vars(module).items():
            function = inspect.unwrap(value) if callable(value) else None
            if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            parameters = inspect.signature(function).parameters.values()
            if any(re.search(r"\bstr\b", str(parameter.annotation)) for parameter in parameters):
                yield f"{module.__name__.removeprefix('vmemo.')}.{name}"


def test_every_rule_is_tried() -> None:
    listed = RULES.keys() | NOT_RULES.keys()
    assert sorted(listed) == sorted(_functions_of_texts())
    assert RULES.keys().isdisjoint(NOT_RULES)


def modules_of(rule: str) -> list[ModuleType]:
    """Return the module of a rule, or all modules of its package below `vmemo.text`."""
    own = "vmemo." + rule.rpartition(".")[0]
    package = own.rpartition(".")[0]
    return [each for each in _modules() if each.__name__.startswith(package if package.count(".") > 1 else own)]


@pytest.mark.parametrize("name", RULES)
def test_work_grows_at_most_linearly(name: str) -> None:
    found = [grows_too_fast(RULES[name], text) for text in texts(modules_of(name), Random(name), OWN_TEXTS)]
    assert not [each for each in found if each]
