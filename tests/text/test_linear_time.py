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

from vmemo.llm import answer_parsing
from vmemo.reflect import citations, condense, coverage, date_math, outline
from vmemo.text import (
    bare_questions,
    change_features,
    chunks,
    fact_text,
    injection,
    instruction_topics,
    instructions,
    noise,
    own_words,
    paraphrase,
    redact,
    repeats,
    statements,
    tokens,
)
from vmemo.text.claims import forms, parse, values
from vmemo.text.names import (
    capitalised_runs,
    distinct,
    find,
    fold,
    language,
    language_ngrams,
    lexicon,
    places,
    similarity,
)
from vmemo.text.questions import (
    analyse,
    answer_types,
    decompose,
    profile_questions,
    query_types,
    tense,
    topics,
    traits,
    unresolved_times,
    yes_no,
)
from vmemo.text.temporal import annotation, cjk_times, clauses, find as find_times, parser, tense_cues, tokenizer

NOW = datetime(2023, 5, 18, 15, 30, tzinfo=UTC)
SPEAKERS = ("Anna", "Will Smith")
OWN_TEXTS = 10
"""Texts per rule that its own regular expressions nearly match."""


def _questions(text: str) -> list[str]:
    return [sentence[0].strip() for sentence in decompose.question_sentences(text)]


def _json(text: str) -> object:
    try:
        return answer_parsing.find_json(text)
    except answer_parsing.InvalidAnswer:
        return None


def _parsed(text: str) -> object:
    try:
        return answer_parsing.parse_answer(text, answer_parsing.AnswerSchema)
    except answer_parsing.InvalidAnswer:
        return None


def _rest(text: str) -> str:
    parts = statements.split_statements(text)
    return statements.join_statements(text, parts[::2], parts[1::2])


def _position(text: str) -> clauses.ClausePosition:
    return clauses.clause_position(text, len(text) // 2, len(text) // 2 + 1)


RULES: dict[str, Rule] = {
    "text.bare_questions.is_bare_question": bare_questions.is_bare_question,
    "text.bare_questions.is_empty_question": bare_questions.is_empty_question,
    "text.change_features.examine": change_features.examine,
    "text.chunks.split_text": chunks.split_text,
    "text.claims.forms.match_statement": lambda text: forms.match_statement(text, owned=True, first_person=True),
    "text.claims.parse.parse_claim": parse.parse_claim,
    "text.claims.values.favourite_category": values.favourite_category,
    "text.claims.values.favourite_value": lambda text: values.favourite_value("dish", text),
    "text.claims.values.fold_value": values.fold_value,
    "text.claims.values.parse_name": values.parse_name,
    "text.fact_text.with_date": lambda text: fact_text.with_date(text, NOW),
    "text.fact_text.embedded_text": lambda text: fact_text.embedded_text(text, NOW),
    "text.injection.addresses_assistant": injection.addresses_assistant,
    "text.injection.contains_instructions": injection.contains_instructions,
    "text.injection.overrides_rules": injection.overrides_rules,
    "text.injection.remove_instructions": injection.remove_instructions,
    "text.injection.repeats_prompt": lambda text: injection.repeats_prompt(text, text, allowed=text),
    "text.instruction_topics.instruction_topic": instruction_topics.instruction_topic,
    "text.instructions.find_instructions": instructions.find_instructions,
    "text.instructions.is_instruction": instructions.is_instruction,
    "text.names.capitalised_runs.find_runs": lambda text: list(capitalised_runs.find_runs(text, SPEAKERS)),
    "text.names.capitalised_runs.is_name_suffix": capitalised_runs.is_name_suffix,
    "text.names.capitalised_runs.may_open_sentence": lambda text: capitalised_runs.may_open_sentence(text, len(text)),
    "text.names.distinct.names_apart": lambda text: distinct.names_apart(text, ["Anna", "Anna Smith"]),
    "text.names.find.find_names": lambda text: find.find_names(text, speakers=SPEAKERS),
    "text.names.fold.fold_name": fold.fold_name,
    "text.names.fold.folded_names": lambda text: fold.folded_names(text, text.split(" ")),
    "text.names.fold.name_runs": lambda text: list(fold.name_runs(text)),
    "text.names.language.is_foreign": language.is_foreign,
    "text.names.language_ngrams.identify_language": language_ngrams.identify_language,
    "text.names.lexicon.is_common_word": inspect.unwrap(lexicon.is_common_word),
    "text.names.lexicon.normalize_word": lexicon.normalize_word,
    "text.names.places.canonical_place": places.canonical_place,
    "text.names.places.place_level": places.place_level,
    "text.names.similarity.fold_name": similarity.fold_name,
    "text.names.similarity.name_form": inspect.unwrap(similarity.name_form),
    "text.names.similarity.nicknames": inspect.unwrap(similarity.nicknames),
    "text.noise.is_grounded": lambda text: noise.is_grounded(text, [text], [text]),
    "text.noise.is_meta_text": noise.is_meta_text,
    "text.noise.is_small_talk": noise.is_small_talk,
    "text.noise.strip_recalled": noise.strip_recalled,
    "text.instruction_topics.occasion_terms": instruction_topics.occasion_terms,
    "text.own_words.begins_persona": own_words.begins_persona,
    "text.own_words.foreign_spans": own_words.foreign_spans,
    "text.own_words.own_parts": lambda text: own_words.own_parts(text.split(" ")),
    "text.own_words.own_words": inspect.unwrap(own_words.own_words),
    "text.paraphrase.contains_sentences": lambda text: paraphrase.contains_sentences(text, text),
    "text.paraphrase.content_overlap": lambda text: paraphrase.content_overlap(text, text[::-1], without=text.split()),
    "text.paraphrase.is_second_person": paraphrase.is_second_person,
    "text.paraphrase.lacks_first_person": paraphrase.lacks_first_person,
    "text.paraphrase.lost_clauses": lambda text: paraphrase.lost_clauses(text, text[::-1], text.split()),
    "text.questions.analyse.analyse_query": lambda text: analyse.analyse_query(text, NOW, report_unresolved=True),
    "text.questions.decompose.decompose": lambda text: decompose.decompose([text], text, text.split()),
    "text.questions.decompose.question_sentences": decompose.question_sentences,
    "text.questions.answer_types.answer_type": lambda text: answer_types.answer_type(text, "temporal"),
    "text.questions.answer_types.asks_for_former_state": answer_types.asks_for_former_state,
    "text.questions.query_types.asks_for_everything": query_types.asks_for_everything,
    "text.questions.query_types.query_type": lambda text: query_types.query_type(text, _questions(text), timed=False),
    "text.questions.query_types.question_type": lambda text: query_types.question_type(text, timed=False),
    "text.questions.topics.topics": topics.topics,
    "text.questions.yes_no.opposite_statements": yes_no.opposite_statements,
    "text.questions.tense.question_tense": lambda text: tense.question_tense(text, None, NOW),
    "text.questions.unresolved_times.find_unresolved_times": lambda text: list(
        unresolved_times.find_unresolved_times(text, find_times.find_times(text, NOW))
    ),
    "text.redact.redact_secrets": redact.redact_secrets,
    "text.repeats.needs_context": lambda text: repeats.needs_context(text.split()),
    "text.repeats.wording": repeats.wording,
    "text.statements.join_statements": _rest,
    "text.statements.sentence_spans": statements.sentence_spans,
    "text.statements.split_statements": statements.split_statements,
    "text.temporal.annotation.annotate": lambda text: annotation.annotate(text, NOW),
    "text.temporal.cjk_times.find_cjk_times": lambda text: list(cjk_times.find_cjk_times(text, NOW, ["zh"])),
    "text.temporal.clauses.clause_position": _position,
    "text.temporal.clauses.concerns_plan": lambda text: clauses.concerns_plan(
        text, "by", clauses.clause_position(text, len(text) // 2, len(text))
    ),
    "text.temporal.clauses.describes_present": lambda text: clauses.describes_present(text, len(text) // 2),
    "text.temporal.annotation.date_text": lambda text: annotation.date_text(text, NOW),
    "text.temporal.annotation.annotate_likely": lambda text: annotation.annotate_likely(text, NOW),
    "text.temporal.annotation.find_statement_times": lambda text: annotation.find_statement_times(text, NOW),
    "text.temporal.clauses.is_determined": lambda text: clauses.is_determined(text, len(text) // 2),
    "text.temporal.clauses.is_modifier": lambda text: clauses.is_modifier(text, len(text) // 2, len(text) // 2 + 1),
    "text.temporal.clauses.is_question": lambda text: clauses.is_question(text, _position(text)),
    "text.temporal.clauses.precedes_noun": lambda text: clauses.precedes_noun(text, len(text) // 2),
    "text.temporal.clauses.is_habitual": lambda text: clauses.is_habitual(text, _position(text)),
    "text.temporal.clauses.leading_word": lambda text: clauses.leading_word(text, len(text) // 2, len(text)),
    "text.temporal.clauses.sentence_bounds": lambda text: clauses.sentence_bounds(text, len(text) // 2, len(text)),
    "text.temporal.find.find_times": lambda text: find_times.find_times(text, NOW),
    "text.temporal.parser.lower_same_length": parser.lower_same_length,
    "text.temporal.parser.parse": lambda text: parser.parse(text, NOW),
    "text.temporal.parser.parse_both": lambda text: parser.parse_both(text, NOW),
    "text.temporal.tense_cues.find_cues": lambda text: tense_cues.find_cues(text, [(0, len(text))]),
    "text.temporal.tokenizer.tokenize": tokenizer.tokenize,
    "text.tokens.terms": tokens.terms,
    "reflect.citations.cited_marks": citations.cited_marks,
    "reflect.citations.complete_part": citations.complete_part,
    "reflect.citations.escape_marks": citations.escape_marks,
    "reflect.citations.parse_marks": lambda text: citations.parse_marks(text.split(" ")),
    "reflect.citations.resolve_citations": lambda text: citations.resolve_citations(text, lambda mark: mark),
    "reflect.citations.unknown_marks": lambda text: citations.unknown_marks(text, ("F1",)),
    "reflect.citations.without_citations": citations.without_citations,
    "reflect.date_math.asks_from_now": date_math.asks_from_now,
    "reflect.date_math.needs_durations": date_math.needs_durations,
    "reflect.date_math.wrong_length": lambda text: date_math.wrong_length(text, "2024-01-01", "2024-03-04"),
    "reflect.coverage.asked_speaker": coverage.asked_speaker,
    "reflect.condense.asks_back": condense.asks_back,
    "reflect.condense.condense": lambda text: condense.condense(text, 40, len),
    "reflect.condense.condense_outline": lambda text: condense.condense_outline(text, 40, len),
    "reflect.condense.new_statements": lambda text: condense.new_statements(text, []),
    "reflect.condense.without_requests": condense.without_requests,
    "reflect.condense.says_nothing": condense.says_nothing,
    "reflect.condense.condense_sentences": lambda text: condense.condense_sentences(text, 40, len),
    "reflect.date_math.asks_for_length": date_math.asks_for_length,
    "reflect.date_math.asks_for_order": date_math.asks_for_order,
    "reflect.outline.advice": outline.advice,
    "reflect.outline.outline": outline.outline,
    "reflect.outline.resolution": outline.resolution,
    "text.questions.traits.persons_in": traits.persons_in,
    "text.questions.traits.trait_queries": traits.trait_queries,
    "text.questions.profile_questions.asks_for_profile": profile_questions.asks_for_profile,
    "llm.answer_parsing.find_json": _json,
    "llm.answer_parsing.parse_answer": _parsed,
}
"""Every rule as a function of a text."""
NOT_RULES = {
    "text.names.entity_types.guess_type": "called by find_names for each run of capitalised words",
    "text.names.nickname_table.full_forms": "looks a word up",
    "text.names.nickname_table.short_forms": "looks a word up",
    "text.temporal.certainty.examine": "called by annotate for each text",
    "text.temporal.clauses.tense_of": "called by annotate for each time expression",
    "text.temporal.durations.count_noun": "formats a number",
    "text.temporal.find.time_expression": "called by find_times for each time expression",
    "text.temporal.patterns.compile_pattern": "reads the patterns of the grammar",
    "text.temporal.patterns.required_tags": "reads the patterns of the grammar",
    "text.temporal.patterns.tags_of": "reads the patterns of the grammar",
    "reflect.date_math.describe_differences": "writes about facts",
    "reflect.coverage.by_speaker": "selects facts",
    "reflect.coverage.cover_course": "selects facts",
    "reflect.coverage.cover_items": "selects facts",
    "reflect.coverage.cover_sessions": "selects facts",
}
"""Functions with a text among their arguments that are not tried by themselves, and the reason."""


def _modules() -> Iterator[ModuleType]:
    package = importlib.import_module("vmemo.text")
    for module in pkgutil.walk_packages(package.__path__, "vmemo.text."):
        yield importlib.import_module(module.name)
    yield from (citations, condense, coverage, date_math, outline, answer_parsing)


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
