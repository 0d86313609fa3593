# pyright: basic, reportMissingImports=false
"""Trains the memory encoder with its reader, and its sibling of six layers, on one GPU.

    python training/train.py PACK TOKENS.spm START.npz ENCODER1.onnx VOCAB.txt OUT [--seconds 400 230 30 370 150 70]

Stages, each with a share of the time:
1. twelve layers learn vectors and rankings of vmemo-encoder-1, in other languages from translations;
2. twelve layers learn to rank whole conversations, and to read, while they keep (1);
3. the weights between (1) and (2), whose reader learns the states that they give;
4. six layers imitate the twelve, and vmemo-encoder-1;
5. six layers with rounded arithmetic: imitation of themselves, the vectors of vmemo-encoder-1, ranking, reading;
6. twelve layers with rounded arithmetic.

Weights are written after each stage; the tense of questions is fitted before those of (5) and (6).
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import data
import numpy as np
import tense
import torch
import torch.nn.functional as F
import weights
from data import Bank, Corpus, Taught
from encoder import Encoder, Outputs
from evaluate import report
from scoring import Scored, groups, listwise, matches, score
from teacher import Teacher
from torch import Tensor, nn

SHARPNESS = 20.0
SIX = [1, 3, 5, 7, 9, 11]
KEPT = 0.985
"""Share of the averaged weights that each step keeps."""
DOCUMENTS, QUERIES = 1152, 192
"""Texts of a step that imitates vectors."""
LATE = 64
"""Queries of them whose late interaction is compared, with every second document."""
SHARES = {
    "hop": 2, "train": 3, "lives": 3, "languages": 4, "wishes": 1, "chat": 6, "foreign chat": 2, "pairs": 3,
}  # fmt: skip
"""How often a text to imitate is of each kind."""
TAUGHT = {"hop": 1, "train": 4, "lives": 3, "languages": 4, "wishes": 1, "chat": 3, "pairs": 2}
"""How often a bank whose vectors the first teacher gives is of each kind."""
RANKED = {"lives": 3, "languages": 3, "train": 2, "hop": 1, "wishes": 6}
"""Banks of a step that ranks and reads."""
BLEND = 0.5
"""Share of the way from the distilled weights to the ranked ones: it keeps most of what either is better at."""
READER_RATE = 2e-4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Mix(nn.Module):
    """Learned temperatures of the scores, alone and combined."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = nn.Parameter(torch.tensor([math.log(20.0), math.log(20.0)]))
        self.joint = nn.Parameter(torch.tensor([math.log(10.0), math.log(10.0), math.log(3.0), math.log(2.0)]))

    def forward(self, scores: Scored) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of the cosine, of late interaction, and of everything together."""
        a, b = self.alone.exp()
        c, d, e, f = self.joint.exp()
        joint = c * scores.pooled + d * scores.late + e * scores.words + f * scores.tense
        return a * scores.pooled, b * scores.late, joint


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean divergence of rows from the wanted distribution."""
    return F.kl_div(logits.log_softmax(-1), wanted.log_softmax(-1), log_target=True, reduction="none").sum(-1).mean()


class Distillation:
    """Batches of texts with the teacher's vectors."""

    def __init__(self, corpus: Corpus, taught: Taught, seed: int) -> None:
        self.corpus, self.taught, self.chance = corpus, taught, random.Random(seed)
        self.known = taught.row.cpu().numpy()
        plain = [bank for bank in corpus.banks if bank.split in SHARES]
        self.groups = {split: [bank for bank in plain if bank.split == split] for split in SHARES}
        used = {n for bank in corpus.banks for n in (*bank.documents.tolist(), *bank.questions.tolist())}
        self.pseudo = [n for n, asks in enumerate(corpus.asks) if asks and n not in used]

    def batch(self, documents: int, queries: int) -> tuple[np.ndarray, Tensor]:
        """Return documents of a few banks, and questions about them with parts of other documents."""
        chosen: list[Bank] = []
        while sum(len(bank.documents) for bank in chosen) < documents:
            (split,) = self.chance.choices(list(TAUGHT), list(TAUGHT.values()))
            chosen.append(self.chance.choice(self.groups[split]))
        row = self.known
        given = [n for bank in chosen for n in bank.documents.tolist() if row[n] >= 0]
        asked = [n for bank in chosen for n in bank.questions.tolist() if row[n] >= 0]
        asked = self.chance.sample(asked, min(len(asked), queries * 2 // 3))
        asked += self.chance.sample(self.pseudo, queries - len(asked))
        self.chance.shuffle(asked)
        given = self.chance.sample(given, min(len(given), documents))
        return np.array(given), torch.tensor(asked, device=DEVICE)

    def loss(self, encoder: Encoder, documents: int, queries: int) -> Tensor:
        """Return the distance from the teacher's vectors, similarities and late interaction."""
        given, asked = self.batch(documents, queries)
        corpus, taught = self.corpus, self.taught
        q_ids, q_mask = corpus.ids.padded(asked)
        query = encoder(q_ids, q_mask, 1)
        q_row = taught.row[asked]
        t_query = taught.pooled[q_row].float()
        # Late interaction takes far more memory than all else, so that a part of the pairs must do.
        some = slice(LATE)
        shares = query.attention[some].masked_fill(~q_mask[some], -1e4).softmax(-1)
        t_tokens, t_shares = (found.padded(q_row[some])[0].float() for found in (taught.tokens, taught.weights))
        pooled, late, t_pooled, t_late = [], [], [], []
        for places in groups(corpus.lengths[given]):
            part = torch.from_numpy(given[places]).to(DEVICE)
            ids, mask = corpus.ids.padded(part)
            made = encoder(ids, mask, 0)
            pooled.append(made.pooled)
            row = taught.row[part]
            t_pooled.append(taught.pooled[row].float())
            own = (mask & corpus.content[ids])[::2]
            late.append((matches(query.tokens[some], made.tokens[::2], own) * shares[:, None, :]).sum(-1))
            with torch.no_grad():
                own = taught.weights.padded(row[::2])[0] > 0
                best = matches(t_tokens, taught.tokens.padded(row[::2])[0].float(), own)
                t_late.append((best * t_shares[:, None, :]).sum(-1))
        vectors, wanted = torch.cat(pooled), torch.cat(t_pooled)
        near = 2 - (vectors * wanted).sum(-1).mean() - (query.pooled * t_query).sum(-1).mean()
        similar = divergence(SHARPNESS * query.pooled @ vectors.T, SHARPNESS * t_query @ wanted.T)
        return 4 * near + similar + divergence(SHARPNESS * torch.cat(late, 1), SHARPNESS * torch.cat(t_late, 1))


class Conversations:
    """Whole banks to rank and to read."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.corpus, self.chance = corpus, random.Random(seed)
        self.feeds = {split: self._forever([b for b in corpus.banks if b.split == split]) for split in RANKED}

    def _forever(self, banks: Sequence[Bank]) -> Iterator[Bank]:
        while True:
            yield from self.chance.sample(banks, len(banks))

    def take(self) -> list[Bank]:
        """Return the banks of a step."""
        return [next(self.feeds[split]) for split, count in RANKED.items() for _ in range(count)]

    def loss(self, encoder: Encoder, mix: Mix, taught: Taught) -> tuple[Tensor, Tensor]:
        """Return the loss of rankings and of reading."""
        banks = self.take()
        corpus = self.corpus
        scores, outputs = score(encoder, corpus, banks, chance=self.chance, questions=40)
        ranked = []
        for bank, found in zip(banks, scores, strict=True):
            if found is None:
                continue
            logits = mix(found)
            gold = sum(listwise(part, found.evidence) for part in logits)
            if bank.split in ("train", "hop"):
                wanted = SHARPNESS * taught_scores(taught, found)
                gold = 0.5 * gold + divergence(logits[0], wanted)
            ranked.append(gold)
        return torch.stack(ranked).mean(), reading(encoder, corpus, outputs)


def taught_scores(taught: Taught, found: Scored) -> Tensor:
    """Return the teacher's cosines of questions and documents."""
    return taught.pooled[taught.row[found.asked]].float() @ taught.pooled[taught.row[found.documents]].float().T


def reading(encoder: Encoder, corpus: Corpus, outputs: Sequence[tuple[Tensor, Tensor, Outputs]]) -> Tensor:
    """Return the loss of the reader over the annotated documents among those that were encoded."""
    losses, noise = [], []
    for rows, mask, made in outputs:
        keep = corpus.noise[rows] >= 0
        if not keep.any():
            continue
        some = rows[keep]
        states = Outputs(made.pooled, made.tokens, made.attention, made.tense, [s[keep] for s in made.states])
        tags, empty = encoder.read(states, mask[keep])
        index = corpus.tags.starts[some][:, None] + torch.arange(mask.shape[1], device=DEVICE)
        found = corpus.tags.flat[index.clamp_max(len(corpus.tags.flat) - 1)]
        wanted = torch.where(mask[keep][..., None], found, -1).float()
        known = wanted >= 0
        more = torch.tensor(2.0, device=DEVICE)
        each = F.binary_cross_entropy_with_logits(tags, wanted.clamp_min(0), reduction="none", pos_weight=more)
        losses.append(((each * known).sum((0, 1)), known.sum((0, 1))))
        noise.append(F.binary_cross_entropy_with_logits(empty, corpus.noise[some], reduction="none"))
    total = sum(a for a, _ in losses) / sum(b for _, b in losses).clamp_min(1)
    return 4 * total.sum() + torch.cat(noise).mean()


def imitation(encoder: Encoder, teacher: Encoder, corpus: Corpus, texts: Tensor) -> Tensor:
    """Return the distance of the smaller encoder's states and outputs from the larger one's."""
    ids, mask = corpus.ids.padded(texts)
    kind = corpus.asking[texts].long()
    made = encoder(ids, mask, kind)
    with torch.no_grad():
        wanted = teacher(ids, mask, kind)
    share = mask / mask.sum()
    every = len(teacher.layers) // len(encoder.layers)
    losses = []
    for state, target in zip(made.states, wanted.states[every - 1 :: every], strict=True):
        error = ((state.float() - target.float()).square().mean(-1) * share).sum()
        losses.append(error / (target.float().square().mean(-1) * share).sum())
    cosine = ((made.tokens * wanted.tokens).sum(-1) * share).sum()
    none = torch.eye(len(texts), dtype=torch.bool, device=DEVICE)
    similar, target = (SHARPNESS * (part.pooled @ part.pooled.T).masked_fill(none, -1) for part in (made, wanted))
    loss = 4 * (1 - (made.pooled * wanted.pooled).sum(-1)).mean() + 2 * (1 - cosine) + divergence(similar, target)
    loss = loss + losses[-1] + 0.3 * torch.stack(losses[:-1]).mean()
    asks = kind.bool()
    if asks.any():
        shares, targets = (part.attention[asks].masked_fill(~mask[asks], -1e4) for part in (made, wanted))
        loss = loss + 0.5 * divergence(shares, targets) + (made.tense - wanted.tense)[asks].square().mean()
    return loss


class Stage:
    """Steps until a time is over: a short rise of the rate, then a cosine."""

    def __init__(self, name: str, model: nn.Module, seconds: float, rate: float, *, averaged: bool) -> None:
        self.name, self.seconds = name, seconds
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.parameters = [p for _, p in named]
        # The reader learns anew what states mean, and needs larger steps than states that are nearly right.
        parts = [([p for name, p in named if ("reader" in name) == reader], reader) for reader in (False, True)]
        self.rates = [max(rate, READER_RATE) if reader else rate for part, reader in parts if part]
        groups = [{"params": part, "lr": rate} for part, _ in parts if part]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=0.01, fused=DEVICE == "cuda")
        self.averages = [p.detach().clone() for p in self.parameters] if averaged else None
        self.steps = 0

    def __iter__(self) -> Iterator[int]:
        began, shown = time.time(), 0.0
        while (done := (time.time() - began) / self.seconds) < 1:
            share = min(1, done / 0.04) * (0.5 + 0.5 * math.cos(math.pi * done))
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate * share
            yield self.steps
            nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
            if self.averages is not None:
                kept = min(KEPT, self.steps / (self.steps + 10))
                torch._foreach_lerp_(self.averages, [p.detach() for p in self.parameters], 1 - kept)
            self.steps += 1
            if time.time() - shown > 15:
                shown = time.time()
                print(f"{self.name} {self.steps} {shown - began:.0f}s {self.note}", flush=True)
        if self.averages is not None:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.averages)
        print(f"{self.name} ended after {self.steps} steps", flush=True)

    note = ""


def resume(encoder: Encoder, path: Path) -> None:
    """Load the weights of a packaged network, to go on from them."""
    state = {name: torch.from_numpy(value.copy()) for name, value in weights.packaged(path).items()}
    # A network stores no powers of two that are all 1.
    encoder.load_state_dict({name: value for name, value in encoder.state_dict().items() if ".shrink" in name} | state)


def automatic() -> torch.autocast:
    """Return the context of mixed precision."""
    return torch.autocast("cuda", torch.bfloat16, enabled=DEVICE == "cuda")


def save(encoder: Encoder, path: Path) -> None:
    """Write the weights in half precision, without the table of words."""
    state = {name: value.half().cpu().numpy() for name, value in encoder.state_dict().items()}
    np.savez(path, **{name: value for name, value in state.items() if name != "words.weight"})


def drop(encoder: Encoder, share: float) -> None:
    """Set the share of states that the layers drop."""
    for layer in encoder.layers:
        layer.dropout.p = share


def watch(encoder: Encoder, corpus: Corpus) -> None:
    """Find the limits of the rounded numbers, then round."""
    for mode in ("measure", "watch"):
        encoder.round(mode)
        with torch.no_grad(), automatic():
            for _ in range(24):
                texts = torch.randint(len(corpus.texts), (256,), device=DEVICE)
                ids, mask = corpus.ids.padded(texts)
                encoder(ids, mask, corpus.asking[texts].long())
        if mode == "measure":
            for layer in encoder.layers:
                layer.spread()
    encoder.round("on")


def mixed_texts(corpus: Corpus, chance: random.Random, count: int) -> Tensor:
    """Return texts of similar length: conversations in all languages, their questions, and sentences."""
    if not corpus.groups:
        for bank in corpus.banks:
            if bank.split in SHARES:
                corpus.groups.setdefault(bank.split, []).extend((*bank.documents.tolist(), *bank.questions.tolist()))
    names = chance.choices(list(SHARES), list(SHARES.values()), k=3 * count)
    numbers = torch.tensor([chance.choice(corpus.groups[name]) for name in names], device=DEVICE)
    numbers = numbers[corpus.ids.lengths[numbers].argsort()]
    part = chance.randrange(3)
    return numbers[part * count : (part + 1) * count]


class Training:
    """The stages, over one corpus."""

    def __init__(self, corpus: Corpus, taught: Taught, out: Path, *, small: bool) -> None:
        self.corpus, self.taught, self.out = corpus, taught, out
        self.distillation, self.conversations = Distillation(corpus, taught, 1), Conversations(corpus, 2)
        self.mix = Mix().to(DEVICE)
        self.documents, self.queries = (24, 6) if small else (DOCUMENTS, QUERIES)

    def finish(self, name: str, encoder: Encoder) -> None:
        """Report on an encoder and write it."""
        report(name, encoder, self.corpus)
        save(encoder, self.out / f"{name}.npz")

    def distil(self, encoder: Encoder, seconds: float, rate: float) -> None:
        """Learn the vectors and rankings of the teacher."""
        _train_only(encoder, lambda name: not name.startswith(("reader", "tense")))
        stage = Stage("distil", encoder, seconds, rate, averaged=True)
        for _ in stage:
            with automatic():
                loss = self.distillation.loss(encoder, self.documents, self.queries)
            loss.backward()
            stage.note = f"{loss.item():.3f}"

    def rank(self, encoder: Encoder, seconds: float) -> None:
        """Learn to rank whole conversations and to read, and keep the teacher's vectors."""
        _train_only(encoder, lambda _: True)
        drop(encoder, 0.1)
        stage = Stage("rank", nn.ModuleList([encoder, self.mix]), seconds, 7e-5, averaged=True)
        for _ in stage:
            with automatic():
                kept = self.distillation.loss(encoder, self.documents // 2, self.queries // 2)
            kept.backward()
            with automatic():
                ranked, read = self.conversations.loss(encoder, self.mix, self.taught)
            (ranked + read).backward()
            stage.note = f"kept {kept.item():.3f} ranked {ranked.item():.3f} read {read.item():.3f}"
        drop(encoder, 0.0)
        self.mix.requires_grad_(False)

    def blend(self, encoder: Encoder, distilled: Encoder, seconds: float) -> None:
        """Move the weights a part of the way back to the distilled ones, then let the reader learn the new states."""
        with torch.no_grad():
            for (name, own), known in zip(encoder.named_parameters(), distilled.parameters(), strict=True):
                if not name.startswith(("reader", "tense")):
                    own.copy_(known.lerp(own, BLEND))
        encoder.round_words()
        _train_only(encoder, lambda name: name.startswith("reader"))
        stage = Stage("blend", encoder.reader, seconds, 3e-4, averaged=True)
        for _ in stage:
            with automatic():
                _, read = self.conversations.loss(encoder, self.mix, self.taught)
            read.backward()
            stage.note = f"read {read.item():.3f}"

    def imitate(self, six: Encoder, twelve: Encoder, seconds: float) -> None:
        """Let six layers learn the states and outputs of twelve, and the rankings of the first teacher."""
        _train_only(six, lambda name: not name.startswith(("reader", "words")))
        chance = random.Random(5)
        stage = Stage("imitate", six, seconds, 4e-4, averaged=True)
        for step in stage:
            with automatic():
                loss = imitation(six, twelve, self.corpus, mixed_texts(self.corpus, chance, self.documents))
            loss.backward()
            stage.note = f"{loss.item():.3f}"
            if step % 2 == 0:
                with automatic():
                    kept = self.distillation.loss(six, self.documents // 2, self.queries // 2)
                (0.5 * kept).backward()
                stage.note += f" kept {kept.item():.3f}"

    def round(self, encoder: Encoder, seconds: float, rate: float) -> None:
        """Imitate itself with exact arithmetic, rank and read with rounded arithmetic."""
        exact = copy.deepcopy(encoder).eval()
        _train_only(encoder, lambda name: not name.startswith("words"))
        watch(encoder, self.corpus)
        chance = random.Random(6)
        stage = Stage(f"round {len(encoder.layers)}", encoder, seconds, rate, averaged=True)
        for _ in stage:
            with automatic():
                loss = imitation(encoder, exact, self.corpus, mixed_texts(self.corpus, chance, self.documents))
            loss.backward()
            with automatic():
                kept = self.distillation.loss(encoder, self.documents // 4, self.queries // 2)
            (0.5 * kept).backward()
            with automatic():
                ranked, read = self.conversations.loss(encoder, self.mix, self.taught)
            (0.15 * ranked + read).backward()
            stage.note = f"{loss.item():.3f} kept {kept.item():.3f} ranked {ranked.item():.3f} read {read.item():.3f}"


def _train_only(encoder: Encoder, chosen: Callable[[str], bool]) -> None:
    encoder.train()
    for name, part in encoder.named_parameters():
        part.requires_grad_(chosen(name))


def main() -> None:
    """Run all stages."""
    parser = argparse.ArgumentParser()
    for name in ("pack", "tokens", "start", "teacher", "vocabulary", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--rate", type=float, default=4e-4, help="of the first stage; less to go on from a trained one")
    parser.add_argument("--seconds", type=float, nargs=6, default=[400, 230, 30, 370, 150, 70])
    parser.add_argument("--small", action="store_true", help="one bank of each kind, to try the script")
    options = parser.parse_args()
    torch.manual_seed(1)
    random.seed(1)
    torch.set_float32_matmul_precision("high")
    if DEVICE == "cuda":
        # cuDNN plans attention anew for each shape, which takes longer than the attention.
        torch.backends.cuda.enable_cudnn_sdp(False)
    options.out.mkdir(exist_ok=True)
    corpus = data.load(options.pack, options.tokens, DEVICE, most=1 if options.small else 10**6)
    taught = data.taught(corpus, Teacher(weights.read(options.teacher)).to(DEVICE).eval(), options.vocabulary)
    print(len(corpus.texts), "texts", flush=True)
    encoder = Encoder(len(corpus.content)).to(DEVICE)
    trained = options.start.is_dir()
    if trained:
        resume(encoder, options.start / "deep.onnx")
    else:
        encoder.start(dict(np.load(options.start)))
    training = Training(corpus, taught, options.out, small=options.small)
    distil, rank, blend, imitate, round_six, round_twelve = options.seconds
    training.distil(encoder, distil, options.rate)
    training.finish("distilled", encoder)
    distilled = copy.deepcopy(encoder).eval()
    training.rank(encoder, rank)
    training.finish("ranked", encoder)
    training.blend(encoder, distilled, blend)
    training.finish("blended", encoder)
    np.savez(options.out / "words.npz", **{"words.weight": encoder.words.weight.detach().cpu().numpy()})
    twelve = copy.deepcopy(encoder).eval()
    six = Encoder(len(corpus.content), len(SIX)).to(DEVICE)
    if trained:
        # The table of words is that of the twelve layers, which has changed.
        resume(six, options.start / "encoder.onnx")
        six.words.load_state_dict(encoder.words.state_dict())
    else:
        six.take_layers(encoder, SIX)
    training.imitate(six, twelve, imitate)
    training.finish("six", six)
    training.round(six, round_six, 8e-5)
    tense.fit(six, corpus)
    training.finish("six_rounded", six)
    training.round(encoder, round_twelve, 5e-5)
    tense.fit(encoder, corpus)
    training.finish("twelve_rounded", encoder)


if __name__ == "__main__":
    main()
