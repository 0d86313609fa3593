"""Trains cross-encoders: three teachers that each score the banks they have not seen, and others to compare with.

python training/teach.py PACK WEIGHTS.onnx OUT.pkl [--rivals 12 6 3]
"""

from __future__ import annotations

import argparse
import pickle
import random
import time
from pathlib import Path

import numpy as np
import scoring
import torch
import weights
from batching import groups, rows
from bert import CrossEncoder, Encoder
from torch import Tensor
from train import dropped_tokens, load

POOL = 32
"""Documents of each question that the teacher scores for the student."""
FOLDS = 3
PICKED = {12: list(range(12)), 6: [0, 2, 4, 6, 8, 11], 3: [0, 5, 11]}


@torch.no_grad()
def candidates(encoder: Encoder, bank: dict, dropped: Tensor, pool: int) -> np.ndarray:
    """Return the first documents of each question in fused order, with all evidence among them."""
    with torch.autocast(str(dropped.device), torch.bfloat16):
        scores = scoring.score(encoder, bank, dropped, context=False)
    ranked = scoring.order(scores, 1.0, 0.5, 0.0)[:, :pool].copy()
    for row, evidence in zip(ranked, bank["evidence"], strict=True):
        missing = [n for n in evidence if n not in row]
        for n in missing:
            place = next(i for i in range(len(row) - 1, -1, -1) if row[i] not in evidence)
            row[place] = n
    return ranked


def pairs(bank: dict, question: int, chosen: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of question and document as two segments; the turn before ends the second."""
    asked = bank["questions"][question]
    asked = np.concatenate([asked[:1], asked[9:]])
    return [(asked, np.concatenate([bank["documents"][n][1:224], bank["contexts"][n]])) for n in chosen]


def run(model: CrossEncoder, found: list[tuple[np.ndarray, np.ndarray]], dropped: Tensor) -> Tensor:
    """Return one score per pair."""
    device, order, parts = str(dropped.device), [], []
    for group in groups([len(a) + len(b) for a, b in found], 65_536):
        part = rows([found[n][0] for n in group], [found[n][1] for n in group], dropped, device)
        with torch.autocast(device, torch.bfloat16):
            parts.append(model(part.ids, part.segments, part.mask))
        order += group
    return torch.cat(parts)[torch.from_numpy(np.argsort(order)).to(device)]


def train(model: CrossEncoder, banks: list[dict], dropped: Tensor, *, epochs: int, rate: float) -> None:
    """Train with relevant documents against hard negatives."""
    items = [(bank, n) for bank in banks for n in range(len(bank["questions"]))]
    hops = [item for item in items if item[0]["split"] == "hop"]
    chats = [item for item in items if item[0]["split"] != "hop"]
    plan = random.sample(hops, min(len(hops), 4000))
    for _ in range(epochs):
        plan += random.sample(chats, len(chats))
    size = 32
    steps = len(plan) // size
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=dropped.is_cuda)
    pace = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps + 1, pct_start=0.1)
    model.train()
    began = time.time()
    for step in range(steps):
        loss = batch_loss(model, plan[step * size : (step + 1) * size], dropped)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        pace.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 100 == 0:
            print(f"  {step}/{steps} loss {loss.item():.3f} {time.time() - began:.0f}s", flush=True)


def batch_loss(model: CrossEncoder, batch: list[tuple[dict, int]], dropped: Tensor, most: int = 12) -> Tensor:
    """Return the listwise loss over evidence and sampled hard negatives."""
    found, spans, marks = [], [], []
    for bank, n in batch:
        evidence = bank["evidence"][n][:4]
        wrong = [d for d in bank["candidates"][n] if d not in bank["evidence"][n]]
        chosen = [*evidence, *random.sample(wrong, min(len(wrong), most - len(evidence)))]
        found += pairs(bank, n, chosen)
        spans.append(len(chosen))
        marks.append(len(evidence))
    losses = []
    for part, right in zip(run(model, found, dropped).split(spans), marks, strict=True):
        evidence = (torch.arange(len(part), device=part.device) < right)[None]
        losses.append(scoring.listwise(part[None], evidence))
    return torch.cat(losses).mean()


@torch.no_grad()
def taught(model: CrossEncoder, bank: dict, dropped: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the candidates and the teacher's scores."""
    model.eval()
    chosen = bank["candidates"]
    found = [pair for n, row in enumerate(chosen) for pair in pairs(bank, n, row)]
    return chosen.astype(np.uint16), run(model, found, dropped).view(chosen.shape).float().cpu().numpy()


@torch.no_grad()
def compare(model: CrossEncoder, encoder: Encoder, banks: list[dict], dropped: Tensor, name: str) -> None:
    """Print the quality of a cross-encoder over the first hundred candidates, with two weights."""
    model.eval()
    for split in ("valid", "locomo", "facts"):
        for weight in (1.0, 3.0):
            judged = []
            for bank in banks:
                if bank["split"] == split:
                    judged += scoring.judge(bank, reranked(model, encoder, bank, dropped, weight))
            print(f"cross-encoder {name} x{weight}", split, scoring.mean(judged).tolist(), flush=True)


def reranked(model: CrossEncoder, encoder: Encoder, bank: dict, dropped: Tensor, weight: float) -> np.ndarray:
    """Return the fused order with its first hundred reranked."""
    with torch.autocast(str(dropped.device), torch.bfloat16):
        scores = scoring.score(encoder, bank, dropped, context=False)
    fused = scoring.normalised(scores.pooled) + 0.5 * scores.words
    top = fused.topk(min(100, fused.shape[1]), 1).indices
    if "pooled100" not in bank:
        found = [pair for n, row in enumerate(top.cpu().numpy()) for pair in pairs(bank, n, row)]
        bank["pooled100"] = run(model, found, dropped).view(top.shape)
    extra = scoring.normalised(bank["pooled100"]) * weight + 1.0
    return fused.scatter_add(1, top, extra).argsort(1, descending=True).cpu().numpy()


def main() -> None:
    """Teach, and compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pack", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--folds", type=int, nargs="*", default=list(range(FOLDS)), help="teachers to train")
    parser.add_argument("--rivals", type=int, nargs="*", default=[], help="layers of cross-encoders to compare with")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    torch.manual_seed(5)
    random.seed(5)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pack, start = load(options.pack), weights.read(options.weights)
    dropped, encoder = dropped_tokens(pack, device), Encoder()
    encoder.bert.load(start)
    encoder.to(device).eval()
    learned = [bank for bank in pack["banks"] if bank["split"] in ("train", "hop")]
    for bank in learned:
        bank["candidates"] = candidates(encoder, bank, dropped, POOL)
    chats = [bank for bank in learned if bank["split"] == "train"]
    scores = {}
    for fold in options.folds:
        seen = [bank for n, bank in enumerate(chats) if n % FOLDS != fold]
        model = CrossEncoder().to(device)
        model.bert.load(start)
        train(model, [*seen, *(b for b in learned if b["split"] == "hop")], dropped, epochs=options.epochs, rate=5e-5)
        for n, bank in enumerate(chats):
            if n % FOLDS == fold:
                scores[bank["name"]] = taught(model, bank, dropped)
        compare(model, encoder, pack["banks"], dropped, f"12 layers, fold {fold}") if fold == 0 else None
    options.out.write_bytes(pickle.dumps(scores))
    for layers in options.rivals:
        for bank in pack["banks"]:
            bank.pop("pooled100", None)
        model = CrossEncoder(layers).to(device)
        model.bert.load(start, PICKED[layers])
        train(model, learned, dropped, epochs=options.epochs, rate=5e-5)
        compare(model, encoder, pack["banks"], dropped, f"{layers} layers")


if __name__ == "__main__":
    main()
