# pyright: basic, reportMissingImports=false
"""Distils an encoder with half the layers from the packaged one, into the same vector space.

python training/distill.py PACK PACKAGED.onnx OUT.npz [--seed N]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scoring
import torch
import torch.nn.functional as F
import train
import weights
from batching import groups
from bert import Encoder, imitate_int8
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

LAYERS = [1, 3, 5, 7, 9, 11]
"""The teacher's layers with which the student starts, and whose states it imitates."""
TABLES = ("bert.words.", "bert.positions.", "bert.segments.")
"""Tables that stay the teacher's, so that the exported files share them and rare words keep their meaning."""
BATCH_TOKENS = 32_768
BANKS = 4
"""Banks per step."""
CHAT_SHARE = 5
"""Times that a chat turn is used while a sentence of the encyclopedia is used once."""
SHARPNESS = 30.0
"""Factor of cosines before a softmax."""
KEPT = 0.995
"""Share of the averaged weights that each step keeps; the averaged weights are the result."""


@dataclass(frozen=True)
class Texts:
    """Token ids of the texts to imitate the teacher on."""

    chats: list[np.ndarray]
    sentences: list[np.ndarray]
    questions: list[np.ndarray]
    prefix: np.ndarray
    """The start marker and the prefix of queries."""


def texts(pack: dict) -> Texts:
    """Return the texts of the training splits."""
    chats, hops = ([bank for bank in pack["banks"] if bank["split"] == split] for split in ("train", "hop"))
    questions = [ids for bank in (*chats, *hops) for ids in bank["questions"]]
    first, last = min(map(tuple, questions)), max(map(tuple, questions))
    shared = next(n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    documents = [[ids for bank in banks for ids in bank["documents"]] for banks in (chats, hops)]
    return Texts(documents[0], documents[1], questions, questions[0][:shared])


def varied(given: Texts, number: int, chance: random.Random) -> np.ndarray:
    """Return a chat turn, a part of it, the turn with the next one, or a part of it as a query."""
    ids = given.chats[number]
    start, inner, end = ids[:1], ids[1:-1], ids[-1:]
    choice = chance.random()
    if choice < 0.4 or len(inner) < 8:
        return ids
    if choice < 0.6 and number + 1 < len(given.chats):
        return np.concatenate([start, inner, given.chats[number + 1][1:-1], end])[-512:]
    size = chance.randrange(4, min(len(inner), 40 if choice > 0.8 else 384))
    at = chance.randrange(len(inner) - size + 1)
    return np.concatenate([given.prefix if choice > 0.8 else start, inner[at : at + size], end])


class Feed(IterableDataset[tuple[Tensor, Tensor]]):
    """Padded ids and lengths of texts of similar length for ever; a round has all of them."""

    def __init__(self, given: Texts, seed: int, most: int) -> None:
        self.given, self.seed, self.most = given, seed, most

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        worker = get_worker_info()
        chance = random.Random(1000 * self.seed + (worker.id if worker else 0))
        while True:
            pool = [*self.given.sentences, *self.given.questions, *self.given.questions]
            pool += [varied(self.given, n, chance) for n in range(len(self.given.chats)) for _ in range(CHAT_SHARE)]
            chance.shuffle(pool)
            size = 40 * self.most // 32
            for start in range(0, len(pool), size):
                part = pool[start : start + size]
                chosen = list(groups([len(ids) for ids in part], self.most))
                chance.shuffle(chosen)
                yield from (_padded([part[n] for n in group]) for group in chosen)


def _padded(batch: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    lengths = np.array([len(ids) for ids in batch])
    width = lengths.max() + -lengths.max() % 8
    ids = np.zeros((len(batch), width), np.int64)
    ids[np.arange(width) < lengths[:, None]] = np.concatenate(batch)
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def imitation(student: Encoder, teacher: Encoder, ids: Tensor, lengths: Tensor, prefix: Tensor) -> Tensor:
    """Return the distance of the student's states, vectors and similarities from the teacher's."""
    mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
    given = (ids, torch.zeros_like(ids), mask)
    share = mask / mask.sum()
    with torch.no_grad():
        wanted = teacher.bert.states(*given)
        t_pooled, t_tokens, t_attention = teacher.outputs(wanted[-1])
    made = student.bert.states(*given)
    pooled, tokens, attention = student.outputs(made[-1])
    states = [_relative(a, wanted[layer], share) for a, layer in zip(made, LAYERS, strict=True)]
    cosine = ((tokens * t_tokens).sum(-1) * share).sum()
    similar = _divergence(SHARPNESS * _others(pooled @ pooled.T), SHARPNESS * _others(t_pooled @ t_pooled.T))
    loss = 4 * (1 - (pooled * t_pooled).sum(-1)).mean() + 2 * (1 - cosine) + similar.mean()
    loss = loss + states[-1] + 0.3 * torch.stack(states[:-1]).mean()
    if ids.shape[1] < len(prefix):
        return loss
    asked = (ids[:, : len(prefix)] == prefix).all(1)
    weighed = _divergence(attention.masked_fill(~mask, -1e4), t_attention.masked_fill(~mask, -1e4))
    return loss + 0.5 * (weighed * asked).sum() / asked.sum().clamp_min(1)


def _relative(made: Tensor, wanted: Tensor, share: Tensor) -> Tensor:
    """Return the mean squared error of the tokens' states, relative to the mean square."""
    wanted = wanted.float()
    error = ((made.float() - wanted).square().mean(-1) * share).sum()
    return error / (wanted.square().mean(-1) * share).sum()


def _others(similarities: Tensor) -> Tensor:
    return similarities.masked_fill(torch.eye(len(similarities), dtype=torch.bool, device=similarities.device), -1.0)


def _divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return each row's divergence from the wanted distribution."""
    return F.kl_div(logits.log_softmax(-1), wanted.log_softmax(-1), log_target=True, reduction="none").sum(-1)


def ranking(student: Encoder, bank: dict, dropped: Tensor, questions: int) -> Tensor:
    """Return the loss of the student's ranking of a bank against the teacher's and against the evidence."""
    count = len(bank["questions"])
    asked = random.sample(range(count), min(count, questions))
    scores = scoring.score(student, bank, dropped, context=False, questions=asked)
    pooled, late = (part[asked] for part in bank["taught"])
    evidence = torch.zeros(scores.pooled.shape, dtype=torch.bool, device=dropped.device)
    for row, number in enumerate(asked):
        evidence[row, bank["evidence"][number]] = True
    taught = _divergence(SHARPNESS * scores.pooled, SHARPNESS * pooled)
    taught = (taught + _divergence(SHARPNESS * scores.late, SHARPNESS * late)).mean()
    joint = SHARPNESS / 2 * (scores.pooled + scores.late) + 3 * scores.words
    alone = (SHARPNESS * scores.pooled, SHARPNESS * scores.late)
    return taught + 0.15 * sum(scoring.listwise(part, evidence).mean() for part in (*alone, joint))


@torch.no_grad()
def teach(teacher: Encoder, banks: Sequence[dict], dropped: Tensor) -> None:
    """Add the teacher's scores to the banks."""
    for bank in banks:
        with torch.autocast(dropped.device.type, torch.bfloat16):
            scores = scoring.score(teacher, bank, dropped, context=False)
        bank["taught"] = (scores.pooled.float(), scores.late.float())


def plan(banks: Sequence[dict], seed: int) -> Iterator[dict]:
    """Yield banks for ever, as many of chats as of sentences."""
    chance = random.Random(seed)
    chats, hops = ([bank for bank in banks if bank["split"] == split] for split in ("train", "hop"))
    while True:
        for pair in zip(chance.sample(chats, len(chats)), chance.sample(hops, len(chats)), strict=True):
            yield from pair


def rate(done: float) -> float:
    """Return the share of the learning rate after a share of the steps: a short rise, then a cosine."""
    return min(1.0, done / 0.03) * (0.5 + 0.5 * math.cos(math.pi * done))


def distil(student: Encoder, teacher: Encoder, pack: dict, options: argparse.Namespace) -> None:
    """Train the student: first on vectors alone, then on rankings too, with int8 arithmetic."""
    device = next(student.parameters()).device
    dropped, given = train.dropped_tokens(pack, str(device)), texts(pack)
    prefix = torch.from_numpy(given.prefix.astype(np.int64)).to(device)
    banks = [bank for bank in pack["banks"] if bank["split"] in ("train", "hop")]
    teach(teacher, banks, dropped)
    loader = DataLoader(Feed(given, options.seed, options.tokens), batch_size=None, num_workers=options.workers)
    feed, order = iter(loader), plan(banks, options.seed)
    trained = {name: value for name, value in student.named_parameters() if not name.startswith(TABLES)}
    optimiser = torch.optim.AdamW(trained.values(), lr=options.rate, weight_decay=0.01, fused=device.type == "cuda")
    averaged = {name: value.detach().clone() for name, value in trained.items()}
    began = time.time()
    for step in range(options.steps):
        if step == options.int8_from:
            imitate_int8(student, on=True)
        optimiser.param_groups[0]["lr"] = options.rate * rate((step + 1) / options.steps)
        with torch.autocast(device.type, torch.bfloat16):
            ids, lengths = (part.to(device, non_blocking=True) for part in next(feed))
            loss = imitation(student, teacher, ids, lengths, prefix)
        loss.backward()
        if step >= options.banks_from:
            for _ in range(BANKS):
                with torch.autocast(device.type, torch.bfloat16):
                    part = ranking(student, next(order), dropped, options.questions) / BANKS
                part.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        kept = KEPT if step >= options.banks_from else 0.0
        with torch.no_grad():
            for name, value in trained.items():
                averaged[name].lerp_(value, 1 - kept)
        if step % 100 == 0 or step == options.steps - 1:
            ranked = f" ranking {part.item() * BANKS:.3f}" if step >= options.banks_from else ""
            print(f"{step} loss {loss.item():.4f}{ranked} {time.time() - began:.0f}s", flush=True)
    student.load_state_dict(averaged, strict=False)


def report(name: str, encoder: Encoder, pack: dict) -> dict:
    """Report on an encoder in float and in int8, and return the latter."""
    for int8 in (False, True):
        print(f"{name}, {'int8' if int8 else 'float'}")
        imitate_int8(encoder, on=int8)
        found = train.report(encoder, pack, context=False)
    imitate_int8(encoder, on=False)
    return found


def main() -> None:
    """Distil, report and write the weights without the shared tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pack", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=11000)
    parser.add_argument("--banks-from", type=int, default=10500, help="the step from which rankings count")
    parser.add_argument("--int8-from", type=int, default=8500, help="the step from which int8 arithmetic is imitated")
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--questions", type=int, default=48)
    parser.add_argument("--tokens", type=int, default=BATCH_TOKENS)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reference", action="store_true", help="report on the teacher as well")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    torch.set_float32_matmul_precision("high")
    # cuDNN plans attention anew for each shape, which takes longer than the attention.
    torch.backends.cuda.enable_cudnn_sdp(False)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pack, packaged = train.load(options.pack), weights.read(options.weights)
    teacher, student = Encoder().to(device).eval(), Encoder(layers=len(LAYERS)).to(device).eval()
    teacher.load(packaged)
    student.load(packaged, LAYERS)
    if options.reference:
        report("teacher", teacher, pack)
    distil(student, teacher.bfloat16(), pack, options)
    state = {name: value for name, value in student.state_dict().items() if not name.startswith(TABLES)}
    np.savez(options.out, **{name: value.half().cpu().numpy() for name, value in state.items()})
    options.out.with_suffix(".json").write_text(json.dumps(report("student", student, pack)))


if __name__ == "__main__":
    main()
