"""Entity type of a name, guessed from the name and the words around it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vmemo.models import EntityType
from vmemo.text.names.capitalised_runs import CapitalisedRun
from vmemo.text.names.lexicon import given_names, is_common_word, normalize_word, word_lists

_DEMONYM_ENDINGS = ("ish", "ese", "ian")


def guess_type(text: str, run: CapitalisedRun, speakers: Collection[str]) -> EntityType:
    """Return the type, or OTHER if it is uncertain: a wrong type prevents two mentions of an entity from merging."""
    first = normalize_word(run.words[0])
    if run.words[0].casefold() in speakers or (first in word_lists()["title"] and len(run.words) > 1):
        return "PERSON"
    by_words = _type_by_words(run.words)
    if by_words is not None:
        return by_words
    if run.number or (len(run.words) == 1 and run.name[0].islower()):
        return "PRODUCT"
    return _type_by_context(text, run)


def _type_by_words(words: Sequence[str]) -> EntityType | None:
    lists, first, last = word_lists(), normalize_word(words[0]), normalize_word(words[-1])
    if last in lists["holiday"]:
        return "EVENT"
    if len(words) == 1:
        return None
    if last in lists["event"]:
        return "EVENT"
    if last in lists["company"] or first in lists["company"]:
        return "ORGANIZATION"
    if last in lists["place"] or (first in lists["place_prefix"] and last not in lists["common"]):
        return "LOCATION"
    return None


def _type_by_context(text: str, run: CapitalisedRun) -> EntityType:
    lists, first = word_lists(), normalize_word(run.words[0])
    if len(run.words) > 3 or not all(word[:1].isupper() and not word.isupper() for word in run.words):
        return "OTHER"
    before = [normalize_word(word) for word in text[max(0, run.start - 40) : run.start].split()[-3:]]
    if run.start and text[run.start - 1] == " " and before and before[-1] in lists["relative"]:
        return "PERSON"
    if first in lists["language"] or first.endswith(_DEMONYM_ENDINGS):
        return "OTHER"
    if first in given_names() and first not in lists["place_and_given_name"]:
        return "PERSON"
    if _acts_like_person(text, run):
        return "PERSON"
    if not run.possessive and not is_common_word(first) and _is_location_context(before):
        return "LOCATION"
    return "OTHER"


def _acts_like_person(text: str, run: CapitalisedRun) -> bool:
    """Return True if the name is greeted, is the subject of a verb of speech, or owns a relative."""
    lists = word_lists()
    after = text[run.end : run.end + 24].split()
    following = normalize_word(after[0]) if after else ""
    return (run.greeted and len(run.words) < 3) or following in lists["relative" if run.possessive else "speech_verb"]


def _is_location_context(before: Sequence[str]) -> bool:
    lists = word_lists()
    earlier, last = ("", "", *before)[-2:]
    if last in lists["before_place"]:
        return earlier not in lists["not_before_place"]
    return (last == "to" and earlier in lists["before_to"]) or (last == "from" and earlier in lists["before_from"])
