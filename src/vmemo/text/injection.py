"""Memories that give orders, and answers that followed them: text inside a memory is data, whatever it says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import STOP_WORDS

MIN_REPEATED_WORDS = 8
"""Words in a row that an answer may share with its instructions by chance, less one."""
_OLD = "previous|prior|earlier|preceding|above|former|original|initial|existing|system|safety|hidden|secret|internal"
_RULES = "instructions?|prompts?|rules?|guidelines?|directives?"
_NO_MORE = r"(?!\s+(?:of|about|on|for (?!this|me|the user))\b)"
"""The rules of a game are no rules of the model's."""
_LEADS = "and|then|must|should|please|now|to|will|just|so|also|can you|could you"
_BEGIN = rf"(?:^|[.!?:;,…\"'(*>#\]–—-]\s{{0,3}}|\b(?:{_LEADS})\s+)"
"""Where an order begins: one who only tells of rules that were ignored says "I" or "she" before it."""
_TURNED: Mapping[str, tuple[str, str, str]] = {
    "en": (
        rf"{_BEGIN}(?:ignore|disregard|forget|override|bypass|violate|abandon)\b",
        rf"\b(?:{_OLD}|your(?!\s+\w+['’]s)|all|any)\b",
        rf"\b(?:{_RULES})\b{_NO_MORE}",
    ),
    "de": (
        rf"{_BEGIN}(?:ignorier\w*|vergiss|missachte\w*)\b(?!\s+nicht)",
        r"\b(?:deine?\w?|ihre|alle|bisherige\w*|vorherige\w*|vorige\w*|frühere\w*|obige\w*)\b",
        r"\b(?:anweisung\w*|regeln|vorgaben|instruktionen|prompts?)\b",
    ),
    "fr": (
        rf"{_BEGIN}(?:ignore[zr]?|oublie[zr]?|néglige[zr]?)\b(?!\s+pas)",
        r"\b(?:précédent\w*|antérieur\w*|tes|vos|toutes|ci-dessus)\b",
        r"\b(?:instructions|règles|consignes|directives)\b",
    ),
    "es, it, pt": (
        rf"{_BEGIN}(?:ignor[ae]|olvid[ae]|omit[ae]|dimentica|trascura|esque(?:ça|ce)|desconsidere)\b",
        r"\b(?:anterior\w*|previ[ao]s|precedenti|tod[ao]s|tutte|tus|sus|tue|sue|suas|tuas)\b",
        r"\b(?:instrucciones|reglas|istruzioni|regole|instruções|regras|indicaciones|diretrizes)\b",
    ),
    "nl": (
        rf"{_BEGIN}(?:negeer|vergeet)\b(?!\s+niet)",
        r"\b(?:eerdere|vorige|voorgaande|alle|je|jouw|uw)\b",
        r"\b(?:instructies|regels|aanwijzingen)\b",
    ),
    "pl": (
        rf"{_BEGIN}(?:z?ignoruj|zapomnij)\b",
        r"\b(?:poprzedni\w*|wcześniejsz\w*|wszystki\w*|swoi\w*)\b",
        r"\b(?:instrukcj\w+|zasad\w*|polece\w+)\b",
    ),
    "ru": (
        rf"{_BEGIN}(?:(?:про)?игнорируй\w*|забудь\w*)\b",
        r"\b(?:предыдущ\w+|прежни\w+|все|свои|твои|системн\w+)\b",
        r"\b(?:инструкци\w+|правила|указани\w+)\b",
    ),
    "tr": (r"\b(?:önceki|tüm|bütün|kendi)\b", r"\b(?:talimat\w*|kural\w*|yönerge\w*)", r"\b(?:yok say|görmezden gel)"),
    "zh": ("忽略|无视|忘记|忘掉", "之前|以前|前面|上面|上述|所有|你的|系统", "指令|指示|规则|提示"),
    "ja": ("以前|これまで|今まで|上記|すべて|全て|あなた", "指示|命令|ルール|指令|プロンプト", "無視し|忘れて"),
    "ko": ("이전|앞선|모든|당신의", "지시|명령|규칙|지침|프롬프트", "무시하|잊어"),
    "ar": (r"(?:تجاهل|انسَ?)\b", "السابقة|جميع|كل|الخاصة بك", "التعليمات|القواعد|الأوامر"),
}
"""Turning a model away from its rules: a word, and behind it in the same sentence the two others."""
_SPEAK = "answer|respond|reply|act|behave|speak|obey|ignore|pretend"
_OTHER = (
    # Not to follow rules, or to act as if there were none.
    rf"\b(?:do not|don['’]t|stop|never)\s+(?:follow|obey)\w*\s+(?:(?:your|these|those)\s+(?:\w+\s+)?(?:{_RULES})\b"
    rf"|the\s+(?:{_RULES})\s+(?:that )?you (?:were|are|have been) given)",
    r"\b(?:ignore|disregard|forget)\s+(?:everything|all)\s+(?:above|before this|you (?:were|have been|are) told)\b",
    rf"\b(?:pretend|act)\s+(?:(?:as (?:if|though)|that)\s+)?(?:you|your|there)\b[^.!?\n]{{0,30}}"
    rf"\b(?:{_RULES}|restrictions)\b",
    # To give away what must stay inside.
    rf"{_BEGIN}(?:reveal|print|repeat|output|show|leak|recite|disclose|display|expose|dump|tell)\b[^.!?\n]{{0,40}}"
    rf"\b(?:your|{_OLD})\s+(?:\w+\s+){{0,2}}(?:{_RULES}|profile|message|configuration)\b{_NO_MORE}",
    rf"{_BEGIN}(?:reveal|leak|disclose|expose)\s+(?:the|your)\s+(?:\w+\s+)?profile\b",
    rf"{_BEGIN}(?:repeat|print|output|show|copy)\b[^.!?\n]{{0,20}}\b(?:text|words|lines?|everything|all)\s+above\b",
    r"\beverything you know about (?:other|all|the other) (?:users?|people|customers?)\b",
    r"\b(?:deine[nrms]?|den|das|tu|ton|il tuo|seu|o)\s+(?:system-?prompt|prompt (?:del sistema|do sistema|système))\b",
    # To be someone else.
    r"\byou are now (?:DAN\b|in \w+ mode|free from|no longer bound|un\w+ed\b"
    r"|(?:an?|the) (?:\w+ ){0,2}(?:assistant|AI|bot|model|chatbot|pirate|hacker|administrator)\b)",
    rf"\byou (?:must|will|shall) now (?:{_SPEAK}|be|reveal|follow|forget)\b",
    rf"\bfrom (?:now|here|this (?:moment|point)) on(?:wards?)?,? (?:(?:please|always|only|just) )*"
    rf"(?:you (?:are an?|must|shall|only|(?:will )?(?:{_SPEAK}))\b|(?:{_SPEAK})\b)",
    r"\b(?:ab (?:jetzt|sofort)|von nun an),?\s+(?:antworte|sprich|sprichst|bist du|handle)",
    r"\bà partir de maintenant,?\s+(?:tu |vous )?(?:ne )?(?:répond|parle|agis|es\b|êtes)",
    r"\b(?:a partir de (?:ahora|agora)|desde ahora|da ora in poi|d'ora in poi),?\s+"
    r"(?:solo |só )?(?:respond|rispond|contesta|habla|parla|fala|act[uú]a|agisci|eres|sei|você)",
    # To answer in a set way.
    rf"{_BEGIN}(?:answer|respond|reply)\b[^.!?\n]{{0,30}}"
    r"\b(?:(?:only|exactly|just|solely) with|with (?:only|nothing but))\b",
    r"\b(?:you are|you['’]re|the user|users?) ask\w*\b[^.!?\n]{0,60}\b(?:always|only|never)\b",
    r"\b(?:do not|don['’]t|never) cite (?:this|these|any|anything|it|your|sources)\b",
    r"\b(?:do not|don['’]t|never) mention (?:this|these|your) "
    r"(?:instructions?|rules?|prompts?|memor(?:y|ies)|messages?)\b",
    # To whoever reads along, or in the guise of the rules themselves.
    r"\b(?:AI|language|chat)[ -]?(?:assistants?|models?|bots?|agents?)\b[^.!?\n]{0,30}\b(?:must|reading this)\b",
    r"\b(?:note|message|attention|instructions?)\s+(?:to|for)\s+(?:the|any|all|every)\s+(?:\w+ ){0,2}"
    r"(?:language models?|AIs?|LLMs?|assistants?|chatbots?)\b",
    rf"{_BEGIN}(?:new|updated|additional|important) instructions?\s*:",
    r"</?(?:system|assistant|instructions?|prompt)>|<\|\w+\|>|\[/?INST\]|<<SYS>>|#{2,9}\s{0,3}(?:system|instructions?)\b",
    r"[.!?:;>\n]\s{0,3}system\s{0,3}:",
)
_NEAR = r"[^.!?。\n]{0,80}?"
_ORDER = LazyPattern(
    "|".join((*(f"(?:{a})(?={_NEAR}(?:{b})){_NEAR}(?:{c})" for a, b, c in _TURNED.values()), *_OTHER)),
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE = LazyPattern(r"[^.!?。！？\n]+[.!?。！？\n]*")
_WORD = LazyPattern(r"\w+")
_ADDRESSED = frozenset("you your yours yourself you're".split())


def contains_instructions(text: str) -> bool:
    """Whether a text reads as if it were meant for the model that is shown it."""
    return _ORDER.search(text) is not None


def remove_instructions(text: str) -> str:
    """The sentences of a text that give no orders."""
    return "".join(sentence for sentence in _SENTENCE.findall(text) if not contains_instructions(sentence))


def repeats_prompt(text: str, told: str, *, beside: str, run: int = MIN_REPEATED_WORDS) -> bool:
    """Whether an answer holds a run of words from what a model was told, which stands nowhere in the rest."""
    words, rest = _words(text), f" {' '.join(_words(beside))} "
    whole = f" {' '.join(_words(told))} "
    runs = (f" {' '.join(words[at : at + run])} " for at in range(len(words) - run + 1))
    return any(each in whole and each not in rest for each in runs)


def addresses_assistant(question: str) -> bool:
    """Whether a question may be about the one who answers; in languages that we can't read, any may."""
    words = set(_words(question))
    return not _ADDRESSED.isdisjoint(words) or STOP_WORDS.isdisjoint(words)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
