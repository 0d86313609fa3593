"""Writes banks as texts, labels and keyword scores, so that the training machine does not need vmemo.

python training/pack.py DATA TOKENS.spm OUT.pkl.xz PUBLIC

PUBLIC is a folder with checkouts of facebookresearch/LASER (sentences of Tatoeba with translations),
alexa/Topical-Chat, google-deepmind/xquad and HLTCHKUST/Xpersona, and with the folder of the package chitchat-dataset.
"""

from __future__ import annotations

import lzma
import pickle
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import corpus
import numpy as np
import sentencepiece
import texts

from vmemo.embedding.token_counter import count_tokens
from vmemo.text.split import split_text
from vmemo.text.temporal.annotation import embedded_text
from vmemo.text.tokens import terms

TAGS = ("wish", "end", "person", "date", "change")
HELD_OUT = ("u", "v", "xj", "we")
"""Authors whose conversations are kept for validation."""
K1, B = 1.2, 0.75
"""Constants of BM25, as in `vmemo.stores.search`."""
INSERTED = re.compile(r"\s*\(= [^)]*\)")
TOGETHER = 250
"""Texts of a bank that is only imitated."""
LIKELY = re.compile(r" \([^()]*\)")


def packed(bank: corpus.MemoryBank) -> dict[str, object]:
    """Return a bank of plain conversations."""
    place = {made.id: index for index, made in enumerate(bank.documents)}
    return {
        "name": bank.name,
        "split": bank.split,
        "documents": [made.text for made in bank.documents],
        "tokens": [count_tokens(made.words) for made in bank.documents],
        "questions": [q.text for q in bank.questions],
        "evidence": [sorted(place[id] for id in q.evidence) for q in bank.questions],
        "turns": [
            [sorted(place[id] for id in ids) for ids in (q.turns or [{id} for id in q.evidence])]
            for q in bank.questions
        ],
        "kinds": [q.kind for q in bank.questions],
        "words": _word_scores(
            [[*terms(made.words) * 2, *terms(made.context)] for made in bank.documents],
            [q.text for q in bank.questions],
        ),
    }


def annotated(kind: str, conversation: dict, tokenizer: sentencepiece.SentencePieceProcessor) -> dict[str, object]:
    """Return a bank of an annotated conversation: its chunks with their labels, and its questions."""
    messages = conversation["messages"]
    ids, documents, english, labels, times = [], [], [], [], []
    for message in messages:
        time = datetime.fromisoformat(message["time"])
        voice = message["name"] if message["role"] == "user" else message["role"].capitalize()
        chunks, start = split_text(message["text"]), 0
        for number, chunk in enumerate(chunks):
            start = message["text"].index(chunk, start)
            text = embedded_text(f"{voice}: {chunk}", time)
            ids.append(message["id"])
            documents.append(text)
            foreign = message.get("en") if number == 0 and len(chunks) == 1 else None
            english.append(embedded_text(f"{voice}: {foreign}", time) if foreign else None)
            found = _labels(kind, conversation, message, text, voice, (start, start + len(chunk)))
            labels.append({"noise": found["noise"], "role": found["role"], "tags": _tags(found, text, tokenizer)})
            times.append(time)
            start += len(chunk)
    of: dict[int, list[int]] = {}
    for number, id in enumerate(ids):
        of.setdefault(id, []).append(number)
    asked = [q for q in conversation.get("questions", []) if q["evidence"]]
    words = [INSERTED.sub("", text.partition(". ")[2]) for text in documents]
    order = np.argsort(np.argsort([time.timestamp() for time in times], kind="stable"))
    return {
        "name": conversation["id"],
        "kind": kind,
        "language": conversation.get("language", "en"),
        "split": f"valid {kind}" if conversation["author"] in HELD_OUT else kind,
        "documents": documents,
        "english": english,
        "labels": labels,
        "place": order / max(1, len(order) - 1),
        "tokens": [count_tokens(text) for text in words],
        "questions": [q["question"] for q in asked],
        "english_questions": [q.get("en") for q in asked],
        "evidence": [sorted(n for id in q["evidence"] for n in of.get(id, [])) for q in asked],
        "outdated": [sorted(n for id in q.get("outdated", []) for n in of.get(id, [])) for q in asked],
        "turns": [[of[id] for id in q["evidence"] if id in of] for q in asked],
        "kinds": [q["type"] for q in asked],
        "words": _word_scores(_with_context(words), [q["question"] for q in asked]),
        "english_words": _word_scores(_with_context(words), [q.get("en") or "" for q in asked]),
    }


def plain(split: str, name: str, documents: Sequence[str], questions: Sequence[str] = ()) -> dict[str, object]:
    """Return a bank of texts to imitate only: no question has evidence."""
    none = [[] for _ in questions]
    return {
        "name": name, "split": split, "documents": list(documents), "questions": list(questions), "evidence": none,
        "turns": none, "kinds": [""] * len(questions), "tokens": [0] * len(documents),
        "words": np.zeros((len(questions), 1), np.float16),
    }  # fmt: skip


def public_texts(public: Path) -> Iterator[dict[str, object]]:
    """Yield banks of texts without labels: sentences with translations, half of them as questions, and chats."""
    chance = random.Random(11)

    def said(voice: str, words: str, time: datetime) -> str:
        return embedded_text(f"{voice}: {words}", time)

    def day() -> datetime:
        return datetime(2022, 1, 1, tzinfo=UTC) + timedelta(days=chance.randrange(1600))

    every = (*texts.sentence_pairs(public), *texts.questions_in_other_languages(public))
    for number, (language, pairs) in enumerate(every):
        for start in range(0, len(pairs), TOGETHER):
            some = pairs[start : start + TOGETHER]
            asked = [pair for pair in some if pair[0].rstrip().endswith(("?", "？", "؟")) or chance.random() < 0.3]
            spoken = [(pair, chance.choice(texts.NAMES), day()) for pair in some]
            rows = [[said(voice, pair[part], time) for pair, voice, time in spoken] for part in (0, 1)]
            bank = plain("pairs", f"pairs-{number}-{start}", rows[0], [pair[0] for pair in asked])
            translated = {"english": rows[1], "english_questions": [pair[1] for pair in asked]}
            yield bank | translated | {"language": language, "english_words": np.zeros((len(asked), 1), np.float16)}
    messages: dict[str, list[tuple[str, str, datetime]]] = {}
    for language, chat in texts.chats(public):
        time = day()
        messages.setdefault(language, []).extend((voice, words, time) for voice, words in chat if words)
    for language, spoken in messages.items():
        for start in range(0, len(spoken), TOGETHER):
            some = spoken[start : start + TOGETHER]
            asks = (words for _, words, _ in some if words.endswith("?") and "." not in words)
            asked = [words for words in asks if 15 < len(words) < 120]
            kind = {"split": "chat" if language == "en" else "foreign chat", "language": language}
            yield plain("chat", f"chat-{language}-{start}", [said(*each) for each in some], asked) | kind


def _with_context(words: Sequence[str]) -> list[list[str]]:
    before = ["", *(text[-400:] for text in words[:-1])]
    return [[*terms(text) * 2, *terms(context)] for text, context in zip(words, before, strict=True)]


def _labels(
    kind: str, conversation: dict, message: dict, text: str, voice: str, within: tuple[int, int]
) -> dict[str, object]:
    """Return what is known of a chunk: if it is noise, which tags were annotated, and their spans in the text."""
    place = _places(text, f"{voice}: {message['text'][slice(*within)]}")
    spans = []
    for tag, part in _marked(conversation, message):
        found = _find(message["text"], part)
        for start, end in found if tag == "person" else found[:1]:
            start, end = max(start, within[0]), min(end, within[1])
            if start < end:
                ahead = len(voice) + 2 - within[0]
                spans.append((TAGS.index(tag), place[start + ahead], place[end - 1 + ahead] + 1))
    known = {"lives": TAGS, "languages": ("wish", "end", "person", "change"), "wishes": ("wish", "end", "person")}[kind]
    return {
        "noise": float(message["id"] in conversation["noise"]),
        "known": [tag in known for tag in TAGS],
        "spans": spans,
        "from": place[len(voice) + 2],
        "role": message["role"],
    }


def _tags(label: dict, text: str, tokenizer: sentencepiece.SentencePieceProcessor) -> np.ndarray:
    """Return the tags of the tokens: 1, 0, or -1 where nothing is known."""
    pieces = tokenizer.encode(text, return_type="proto").pieces
    # Offsets are in bytes.
    character = np.repeat(np.arange(len(text) + 1), [*(len(c.encode()) for c in text), 1])
    spans = np.array([(character[piece.begin], character[piece.end]) for piece in pieces]).reshape(-1, 2)
    tags = np.full((len(pieces), len(TAGS)), -1, np.int8)
    inside = spans[:, 1] > label["from"]
    tags[np.ix_(inside, label["known"])] = 0
    for tag, start, end in label["spans"]:
        tags[inside & (spans[:, 1] > start) & (spans[:, 0] < end), tag] = 1
    return tags


def _marked(conversation: dict, message: dict) -> Iterator[tuple[str, str]]:
    for each in conversation["instructions"]:
        if each["message"] == message["id"]:
            yield "wish", each["text"]
        if each.get("until") == message["id"] and each.get("by"):
            yield "end", each["by"]
    for each in conversation.get("changes", []):
        if each["until"] == message["id"] and each.get("by"):
            yield "change", each["by"]
    for each in conversation["people"]:
        for mention in {mention["text"] for mention in each["mentions"] if mention["message"] == message["id"]}:
            yield "person", mention
    for each in conversation.get("dates", []):
        if each["message"] == message["id"]:
            yield "date", each["text"]


def _find(text: str, part: str) -> list[tuple[int, int]]:
    pattern = re.compile(rf"(?<!\w){re.escape(part)}(?!\w)")
    found = [match.span() for match in pattern.finditer(text)]
    return found or [match.span() for match in re.finditer(re.escape(part), text)]


def _places(text: str, words: str) -> list[int]:
    """Return where each character of the words stands in a text that has a date before them and dates inserted."""
    at, places = text.index(". ") + 2, []
    for number, character in enumerate(words):
        inserted = LIKELY.match(text, at)
        if inserted and not words.startswith(inserted[0], number):
            at = inserted.end()
        if text[at] != character:
            raise ValueError(f"{text!r} does not hold {words!r}")
        places.append(at)
        at += 1
    return places


def _word_scores(documents: Sequence[Sequence[str]], questions: Sequence[str]) -> np.ndarray:
    """Return each question's BM25 scores as in keyword search, divided by the best."""
    counts = [Counter(words) for words in documents]
    holders: dict[str, list[int]] = {}
    for row, words in enumerate(counts):
        for word in words:
            holders.setdefault(word, []).append(row)
    lengths = np.array([len(words) for words in documents], np.float32)
    norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1.0))
    scores = np.zeros((len(questions), len(documents)), np.float32)
    for question, row in zip(questions, scores, strict=True):
        for word in sorted(set(terms(question)) & holders.keys()):
            rows = np.array(holders[word])
            often = np.array([counts[place][word] for place in holders[word]], np.float32)
            rarity = np.log(1 + (len(documents) - len(rows) + 0.5) / (len(rows) + 0.5))
            row[rows] += rarity * often * (K1 + 1) / (often + norms[rows])
    return (scores / np.maximum(scores.max(axis=1, keepdims=True, initial=0), 1e-9)).astype(np.float16)


def main() -> None:
    """Write the pack."""
    data, out, public = (Path(sys.argv[n]) for n in (1, 3, 4))
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=sys.argv[2])
    own = (corpus.conversations(), corpus.earlier_conversations(data), corpus.sessions(data), corpus.sentences(data))
    rows = [packed(bank) for source in (*own, corpus.locomo(data)) for bank in source]
    rows += [annotated(kind, conversation, tokenizer) for kind, conversation in texts.annotated(data)]
    rows += public_texts(public)
    with lzma.open(out, "wb", preset=6) as file:
        pickle.dump({"banks": rows, "tags": TAGS}, file)
    for split in dict.fromkeys(row["split"] for row in rows):
        some = [row for row in rows if row["split"] == split]
        documents = sum(len(row["documents"]) for row in some)
        print(split, f"{len(some)} banks, {documents} documents, {sum(len(r['questions']) for r in some)} questions")


if __name__ == "__main__":
    main()
