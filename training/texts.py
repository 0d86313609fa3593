"""The conversations that were written for training, as they were annotated."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Iterator
from pathlib import Path

OWN = Path(__file__).parent
TATOEBA = {
    "ar": ("ara", "arz"), "de": ("deu",), "es": ("spa",), "fr": ("fra",), "hi": ("hin",), "id": ("ind",),
    "it": ("ita",), "ja": ("jpn",), "ko": ("kor",), "pl": ("pol",), "pt": ("por",), "ru": ("rus",), "tr": ("tur",),
    "vi": ("vie",), "zh": ("cmn",),
}  # fmt: skip
"""The names of a language's files of sentences."""


PERSONAS = {"en": "En", "fr": "Fr", "id": "Id", "it": "It", "ja": "Jp", "ko": "Ko", "zh": "Zh"}
"""The names of a language's files of XPersona."""
NAMES = """
Aaliyah Abdul Ada Adrián Agnieszka Ahmed Aiko Aisha Alejandra Alessio Alice Amara Amir Amy Ana Andre Andrew Anika Anna
Anton Aoife Arjun Arturo Ash Astrid Audrey Ayesha Beatriz Ben Bianca Bob Bogdan Brandon Brenda Bruno Callum Camila
Carla Carlos Caroline Catherine Chen Chidi Chloe Christopher Claire Connor Craig Cristina Daisuke Dan Daniela Daria
Dave Deborah Deepak Denise Diego Dina Dmitri Dolores Dominic Duc Dylan Ebony Eduardo Eleni Elena Eli Elif Emeka Emily
Emma Enrique Eric Esther Evan Fatima Felix Fiona Frank Freya Gabriel Gareth George Gina Giulia Grace Greg Guillermo
Hana Hannah Harpreet Hassan Heather Hugo Ibrahim Ilse Imani Ines Ingrid Irene Isaac Ivan Jack Jamal Janine Jasmine
Javier Jenny Jess Jin Joao Jodie Joe Johannes Jordan José Judith Julian Kamal Karen Kasia Kate Kavita Keisha Ken Kofi
Kwame Kyle Lars Laura Layla Leah Leila Leo Liam Lily Lin Linh Lisa Lorenzo Louise Luca Lucy Luis Magda Malik Mandy
Manuel Marco Margaret Maria Marta Martin Mateo Matt Maya Mei Mia Mick Mihai Milan Min Mina Mohammed Monica Nadia Naomi
Natalie Nathan Neil Nia Nick Nicole Niko Nina Noah Noor Nora Olga Oliver Omar Oscar Owen Pablo Patricia Paul Pedro
Penny Peter Petra Phil Pierre Priya Rachel Rafael Raj Ramón Ravi Rebecca Renata Rosa Rory Ruth Ryan Sachiko Sakura
Sally Salma Sam Samira Sandra Sanjay Sara Scott Sean Sergei Shanice Sharon Siobhan Sofia Sophie Stefan Steph Steve
Sunita Susan Tariq Teresa Thabo Theo Tim Tina Tom Tomás Tony Tracy Trevor Uma Valentina Vera Victor Vikram Wanda Wei
Wendy Will Xavier Yara Yasmin Yuki Yusuf Zara Zoe user Assistant
""".split()
"""Names of speakers: a model that saw few takes others for each other."""


def annotated(data: Path) -> Iterator[tuple[str, dict]]:
    """Yield the kind (lives, languages, wishes) and content of each annotated conversation."""
    for path in sorted((data / "training/lives").glob("*.json")):
        yield "lives", json.loads(path.read_text("utf-8"))
    for kind in ("lives", "languages", "wishes"):
        for path in sorted((OWN / kind).glob("*.jsonl.xz")):
            with lzma.open(path, "rt", encoding="utf-8") as lines:
                yield from ((kind, json.loads(line)) for line in lines)


def all_texts(data: Path) -> Iterator[str]:
    """Yield all text that is trained on, for the choice of pieces."""
    for path in sorted((OWN / "conversations").glob("*.txt")):
        yield from path.read_text("utf-8").splitlines()
    for session in json.loads((data / "training/sessions.json").read_text("utf-8")):
        yield from (turn["content"] for turn in session["turns"])
    with lzma.open(data / "training/multihop_sentences.jsonl.xz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            yield from (row["q"], *row["p"], *row["n"])
    for _, conversation in annotated(data):
        for message in conversation["messages"]:
            yield from (message["text"], message.get("en", ""))
        for question in conversation.get("questions", []):
            yield from (question["question"], question.get("en", ""))


def sentence_pairs(public: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield a language, and its sentences with their translations into English, from a checkout of LASER."""
    for language, names in TATOEBA.items():
        for name in names:
            files = (public / f"LASER/data/tatoeba/v1/tatoeba.{name}-eng.{part}" for part in (name, "eng"))
            rows = (file.read_text("utf-8").splitlines() for file in files)
            yield language, [pair for pair in zip(*rows, strict=True) if all(pair)]


def questions_in_other_languages(public: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield a language, and its questions with their English originals, from a checkout of XQuAD."""

    def questions(language: str) -> list[str]:
        raw = json.loads((public / f"xquad/xquad.{language}.json").read_text("utf-8"))
        parts = (part for article in raw["data"] for part in article["paragraphs"])
        return [asked["question"] for part in parts for asked in part["qas"]]

    english = questions("en")
    for language in ("ar", "de", "es", "hi", "ru", "tr", "vi", "zh"):
        yield language, list(zip(questions(language), english, strict=True))


def chats(public: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield a language and a conversation of strangers, as speakers and messages.

    From checkouts of Topical-Chat and XPersona, and the file of the package chitchat-dataset.
    """
    chance = random.Random(7)
    for path in sorted((public / "Topical-Chat/conversations").glob("*.json")):
        for conversation in json.loads(path.read_text("utf-8")).values():
            voices = dict(zip(("agent_1", "agent_2"), chance.sample(NAMES, 2), strict=True))
            yield "en", [(voices[turn["agent"]], turn["message"].strip()) for turn in conversation["content"]]
    for language, name in PERSONAS.items():
        for path in sorted((public / "Xpersona/dataset").glob(f"{name}_persona_*.json")):
            for conversation in json.loads(path.read_text("utf-8")):
                voices = chance.sample(NAMES, 2)
                turns = [zip(voices, map(_joined, turn), strict=False) for turn in conversation["dialogue"]]
                yield language, [said for turn in turns for said in turn if said[1] != "__SILENCE__"]
    raw = json.loads((public / "chitchat_dataset/dataset.json").read_text("utf-8"))
    for key in sorted(raw):
        said = [message for messages in raw[key]["messages"] for message in messages]
        senders = dict.fromkeys(message["sender"] for message in said)
        voices = dict(zip(senders, chance.sample(NAMES, len(senders)), strict=True))
        rows = [(voices[message["sender"]], message["text"].strip()) for message in said]
        # Half of the greetings and thanks are enough.
        yield "en", [row for row in rows if 25 <= len(row[1]) < 600 or (len(row[1]) > 8 and chance.random() < 0.1)]


def _joined(words: str) -> str:
    """Return words without the spaces that their tokenizer left before punctuation."""
    return re.sub(r" (?=[.,!?;:'’])", "", words).strip()
