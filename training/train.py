"""Trains the memory encoder: one pass gives the pooled vector and the token vectors.

python training/train.py PACK WEIGHTS.onnx OUT [--teacher SCORES …] [--epochs N] [--seed N]
    python training/train.py PACK WEIGHTS.onnx OUT --average ONE.npz TWO.npz
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import pickle
import random
import time
from pathlib import Path

import numpy as np
import scoring
import torch
import weights
from bert import Encoder
from torch import Tensor, nn

ACCUMULATE = 4
"""Banks per step."""
GRID = [
    (1.0, words, late, window)
    for words in (0.3, 0.5)
    for late, window in ((0, 0), (0.5, 0), (1, 0), (1.5, 0), (2, 0), (0, 0.5), (0, 1), (0, 2))
]
KEPT = 0.985
"""Share of the averaged weights that each step keeps; the averaged weights are the result."""


class Mix(nn.Module):
    """Learned temperatures of the scores, alone and combined."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = nn.Parameter(torch.tensor([math.log(20.0), math.log(20.0)]))
        self.joint = nn.Parameter(torch.tensor([math.log(10.0), math.log(10.0), math.log(3.0)]))

    def forward(self, scores: scoring.Scores) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of the cosine, of late interaction, and of all scores together."""
        a, b = self.alone.exp()
        c, d, e = self.joint.exp()
        joint = c * scores.pooled + d * scores.late + e * scores.words
        return a * scores.pooled, b * scores.late, joint


def load(path: Path) -> dict:
    """Load the pack."""
    with lzma.open(path, "rb") as file:
        return pickle.load(file)


def schedule(banks: list[dict], epochs: int, seed: int) -> list[dict]:
    """Return the order of banks: encyclopedia sentences first, then chats mixed with sentences."""
    chance = random.Random(seed)
    hops = [bank for bank in banks if bank["split"] == "hop"]
    chats = [bank for bank in banks if bank["split"] == "train"]
    chance.shuffle(hops)
    plan = hops[: len(hops) // 2]
    rest = hops[len(hops) // 2 :]
    for _ in range(epochs):
        round_ = [*chats, *chance.sample(rest, min(len(rest), len(chats) // 4))]
        chance.shuffle(round_)
        plan += round_
    return plan


def loss_of(encoder: Encoder, mix: Mix, bank: dict, dropped: Tensor, options: argparse.Namespace) -> Tensor:
    """Return the loss of each score alone and of all together, mixed with the teacher's scores if there are any."""
    count = len(bank["questions"])
    asked = random.sample(range(count), min(count, options.questions))
    scores = scoring.score(encoder, bank, dropped, context=options.context, questions=asked)
    evidence = torch.zeros(scores.pooled.shape, dtype=torch.bool, device=dropped.device)
    for row, number in enumerate(asked):
        evidence[row, bank["evidence"][number]] = True
    logits = mix(scores)
    gold = sum(scoring.listwise(part, evidence).mean() for part in logits)
    if "teacher" not in bank:
        return gold
    chosen = torch.from_numpy(bank["teacher"][0][asked].astype(np.int64)).to(dropped.device)
    wanted = torch.from_numpy(bank["teacher"][1][asked]).to(dropped.device).softmax(1)
    taught = sum(-(wanted * part.gather(1, chosen).log_softmax(1)).sum(1).mean() for part in logits)
    return (1 - options.share) * gold + options.share * taught


def train(encoder: Encoder, pack: dict, options: argparse.Namespace) -> None:
    """Train over the whole schedule."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mix = Mix().to(device)
    dropped = dropped_tokens(pack, device)
    heads = [*encoder.tokens.parameters(), *encoder.attention.parameters(), *mix.parameters()]
    groups = [
        {"params": list(encoder.bert.parameters()), "lr": options.rate},
        {"params": heads, "lr": 20 * options.rate},
    ]
    plan = schedule(pack["banks"], options.epochs, options.seed)
    steps = len(plan) // ACCUMULATE
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01, fused=device == "cuda")
    pace = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, [group["lr"] for group in groups], total_steps=steps + 1, pct_start=0.1, cycle_momentum=False
    )
    began = time.time()
    averaged = {name: value.detach().clone() for name, value in encoder.state_dict().items()}
    for number, bank in enumerate(plan[: steps * ACCUMULATE]):
        encoder.train()
        with torch.autocast(device, torch.bfloat16):
            loss = loss_of(encoder, mix, bank, dropped, options) / ACCUMULATE
        loss.backward()
        if number % ACCUMULATE == ACCUMULATE - 1:
            torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
            optimiser.step()
            pace.step()
            optimiser.zero_grad(set_to_none=True)
            with torch.no_grad():
                for name, value in encoder.state_dict().items():
                    averaged[name].lerp_(value, 1 - KEPT)
        if number % 200 == 0:
            print(f"{number}/{len(plan)} loss {loss.item() * ACCUMULATE:.3f} {time.time() - began:.0f}s", flush=True)
    encoder.load_state_dict(averaged)
    print("mix", mix.alone.exp().tolist(), mix.joint.exp().tolist())


def dropped_tokens(pack: dict, device: str) -> Tensor:
    """Return a mask of the token ids without a vector."""
    dropped = torch.zeros(30522, dtype=torch.bool, device=device)
    dropped[torch.tensor(pack["dropped"], device=device)] = True
    return dropped


@torch.no_grad()
def report(encoder: Encoder, pack: dict, *, context: bool) -> dict:
    """Return the scores of every weighting, and print those of the best one on validation."""
    encoder.eval()
    device = str(next(encoder.parameters()).device)
    dropped, found = dropped_tokens(pack, device), dict[str, dict]()
    scores = {}
    for bank in pack["banks"]:
        if bank["split"] in ("valid", "locomo", "facts"):
            with torch.autocast(device, torch.bfloat16):
                scores[bank["name"]] = scoring.score(encoder, bank, dropped, context=context)
    for split in ("valid", "locomo", "facts"):
        banks = [bank for bank in pack["banks"] if bank["split"] == split]
        for weighting in GRID:
            judged = [
                line for bank in banks for line in scoring.judge(bank, scoring.order(scores[bank["name"]], *weighting))
            ]
            found.setdefault(split, {})[str(weighting)] = scoring.mean(judged).tolist()
    best = max(found["valid"], key=lambda key: sum(found["valid"][key][:2]))
    print("best on valid", best)
    for split, values in found.items():
        print(split, "best", values[best], "| none", values["(1.0, 0.5, 0, 0)"], "| late", values["(1.0, 0.5, 1, 0)"])
        print(split, "late 2", values["(1.0, 0.5, 2, 0)"], "| window 1", values["(1.0, 0.5, 0, 1)"], flush=True)
    return found


def main() -> None:
    """Train, report and write the weights."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pack", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--context", action="store_true")
    parser.add_argument("--teacher", type=Path, nargs="*", default=[])
    parser.add_argument("--share", type=float, default=0.6)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rate", type=float, default=4e-5)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--questions", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--average", type=Path, nargs="*", default=[], help="average trained weights; train nothing")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    torch.set_float32_matmul_precision("high")
    pack = load(options.pack)
    for path in options.teacher:
        taught = pickle.loads(path.read_bytes())
        for bank in pack["banks"]:
            if bank["name"] in taught:
                bank["teacher"] = taught[bank["name"]]
    encoder = Encoder(options.width)
    encoder.bert.load(weights.read(options.weights))
    encoder.to("cuda" if torch.cuda.is_available() else "cpu")
    if options.average:
        states = [np.load(path) for path in options.average]
        means = {name: sum(state[name].astype(np.float32) for state in states) / len(states) for name in states[0]}
        encoder.load_state_dict({name: torch.from_numpy(value) for name, value in means.items()})
    else:
        train(encoder, pack, options)
    found = report(encoder, pack, context=options.context)
    options.out.with_suffix(".json").write_text(json.dumps(found))
    state = {name: value.half().cpu().numpy() for name, value in encoder.state_dict().items()}
    np.savez(options.out, **state)


if __name__ == "__main__":
    main()
