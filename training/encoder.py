# pyright: basic, reportMissingImports=false
"""The memory encoder and its reader in torch, with the arithmetic of the exported file.

One pass gives a pooled vector to search by, a short vector per token to rerank by, the weight of each token of a query,
the tense of a question, and what the reader says of each token and of the whole text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, INNER = 384, 12, 1536
TOKEN_WIDTH = 48
READER_WIDTH, READER_HEADS, READER_INNER = 128, 4, 256
TAGS = 5
WEIGHT_STEPS = 63
"""Steps of a weight on each side: sums of two products with bytes fit 16 bits, as processors without VNNI add them."""
EPSILON = 1e-12


class Rounder(nn.Module):
    """Rounds inputs of a product to 256 steps between limits that are found once and then fixed.

    A few numbers of a state are far greater than all others. Each is multiplied by a power of two of its own before it
    is rounded, and the weights of the product by the inverse, so that one step is fine enough for all.
    """

    low: Tensor
    high: Tensor
    shrink: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.zeros(()))
        self.register_buffer("shrink", torch.ones(width))
        self.greatest: Tensor | None = None
        self.mode = "off"

    def forward(self, values: Tensor) -> Tensor:
        """Return the values times their powers of two, rounded if the mode is `on`."""
        values = values * self.shrink
        if self.mode == "off":
            return values
        if self.mode == "measure":
            found = values.detach().float().flatten(0, -2).abs().amax(0)
            self.greatest = found if self.greatest is None else torch.maximum(self.greatest, found)
            return values
        if self.mode == "watch":
            some = values.detach().float().flatten()
            some = some[torch.randint(len(some), (200_000,), device=some.device)].sort().values
            self.low.copy_(torch.minimum(self.low, some[4]))
            self.high.copy_(torch.maximum(self.high, some[-4]))
            return values
        step = ((self.high - self.low) / 255).clamp_min(1e-8)
        return torch.fake_quantize_per_tensor_affine(values.float(), step, (-self.low / step).round().int(), 0, 255)


class Product(nn.Linear):
    """A linear map whose weights are rounded, by output, while `rounded` is set."""

    rounded = False

    def forward(self, input: Tensor) -> Tensor:
        """Return the product."""
        if not self.rounded:
            return F.linear(input, self.weight, self.bias)
        step = self.weight.detach().abs().amax(1).clamp_min(1e-8) / WEIGHT_STEPS
        zero = torch.zeros_like(step, dtype=torch.int32)
        weight = torch.fake_quantize_per_channel_affine(self.weight, step, zero, 0, -WEIGHT_STEPS, WEIGHT_STEPS)
        return F.linear(input, weight, self.bias)


class Layer(nn.Module):
    """Attention and feed-forward, each followed by its residual and norm."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.attended = (Product(WIDTH, WIDTH) for _ in range(4))
        self.attended_norm, self.norm = (nn.LayerNorm(WIDTH, eps=EPSILON) for _ in range(2))
        self.inner, self.outer = Product(WIDTH, INNER), Product(INNER, WIDTH)
        self.rounders = nn.ModuleList(Rounder(width) for width in (WIDTH, WIDTH, WIDTH, INNER))
        self.dropout = nn.Dropout(0.0)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the next states."""
        rows, length, _ = states.shape
        given = self.rounders[0](states)
        query, key, value = (
            part(given).view(rows, length, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        mixed = self.rounders[1](mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        states = self.attended_norm(states + self.dropout(self.attended(mixed)))
        inner = F.gelu(self.inner(self.rounders[2](states)))
        return self.norm(states + self.dropout(self.outer(self.rounders[3](inner))))

    @torch.no_grad()
    def spread(self) -> None:
        """Move the difference of size between the numbers of a state into weights, by what was measured."""
        products = ((self.query, self.key, self.value), (self.attended,), (self.inner,), (self.outer,))
        for number, (rounder, maps) in enumerate(zip(self.rounders, products, strict=True)):
            weight = torch.stack([part.weight.abs().amax(0) for part in maps]).amax(0).clamp_min(1e-4)
            power = 0.5 * (rounder.greatest.clamp_min(1e-4) / weight).log2()
            factor = torch.exp2((power - power.mean()).round())
            for part in maps:
                part.weight.mul_(factor)
            if number == 1:
                # Attention is linear in the values, so that they can be small from the beginning.
                self.value.weight.div_(factor[:, None])
                self.value.bias.div_(factor)
            else:
                rounder.shrink.div_(factor)


class Reader(nn.Module):
    """Reads states of the middle and of the last layer: one small layer of its own, then tags and noise."""

    def __init__(self) -> None:
        super().__init__()
        self.join = nn.Linear(2 * WIDTH, READER_WIDTH)
        self.first, self.second = (nn.LayerNorm(READER_WIDTH, eps=1e-5) for _ in range(2))
        self.mix, self.mixed = nn.Linear(READER_WIDTH, 3 * READER_WIDTH), nn.Linear(READER_WIDTH, READER_WIDTH)
        self.inner, self.outer = nn.Linear(READER_WIDTH, READER_INNER), nn.Linear(READER_INNER, READER_WIDTH)
        self.tags = nn.Linear(READER_WIDTH, TAGS)
        self.noise = nn.Linear(2 * READER_WIDTH, 1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, middle: Tensor, last: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of each token's tags, and of the text being noise."""
        rows, length, _ = last.shape
        states = self.join(self.dropout(torch.cat([middle, last], -1)))
        normed = self.first(states)
        query, key, value = (
            part.view(rows, length, READER_HEADS, -1).transpose(1, 2)
            for part in self.mix(normed).split(READER_WIDTH, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        states = states + self.mixed(mixed.transpose(1, 2).reshape(rows, length, READER_WIDTH))
        states = states + self.outer(self.dropout(F.gelu(self.inner(self.second(states)))))
        kept = mask[..., None]
        mean = (states * kept).sum(1) / kept.sum(1)
        most = states.masked_fill(~kept, -1e4).amax(1)
        return self.tags(self.dropout(states)).float(), self.noise(torch.cat([mean, most], -1))[..., 0].float()


@dataclass(frozen=True)
class Outputs:
    """What a pass gives; `states` are those after each layer."""

    pooled: Tensor
    tokens: Tensor
    attention: Tensor
    tense: Tensor
    states: list[Tensor]


class Encoder(nn.Module):
    """The transformer with its heads."""

    def __init__(self, pieces: int, layers: int = 12) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(pieces, WIDTH), nn.Embedding(512, WIDTH)
        self.segments, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH, eps=EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.tokens, self.attention = nn.Linear(WIDTH, TOKEN_WIDTH, bias=False), nn.Linear(WIDTH, 1, bias=False)
        self.pooling = nn.Linear(WIDTH, WIDTH)
        self.tense, self.reader = nn.Linear(WIDTH, 1), Reader()
        nn.init.orthogonal_(self.tokens.weight)
        nn.init.eye_(self.pooling.weight)
        for part in (self.attention.weight, self.pooling.bias, self.tense.weight, self.tense.bias):
            nn.init.zeros_(part)

    def forward(self, ids: Tensor, mask: Tensor, segment: int | Tensor) -> Outputs:
        """Encode rows of ids; the segment is 0 for documents and 1 for queries."""
        places = torch.arange(ids.shape[1], device=ids.device)
        kind = torch.as_tensor(segment, device=ids.device).reshape(-1, 1).expand(ids.shape)
        states = [self.norm(self.words(ids) + self.positions(places) + self.segments(kind))]
        for layer in self.layers:
            states.append(layer(states[-1], mask[:, None, None, :]))
        last = states[-1]
        mean = (last * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        pooled = F.normalize(self.pooling(mean).float(), dim=-1)
        tokens = F.normalize(self.tokens(last).float(), dim=-1)
        tense = torch.tanh(self.tense(pooled)[..., 0].float())
        return Outputs(pooled, tokens, self.attention(last)[..., 0].float(), tense, states[1:])

    def read(self, outputs: Outputs, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the reader's logits."""
        return self.reader(outputs.states[len(self.layers) // 2 - 1], outputs.states[-1], mask)

    def start(self, weights: dict[str, np.ndarray]) -> None:
        """Load multilingual-e5-small as `start.py` wrote it."""
        own = dict(self.named_parameters())
        with torch.no_grad():
            for name, value in weights.items():
                known = value if value.dtype != np.uint8 else floats(value)
                target = own[_name(name)]
                if name == "emb.type":
                    known = known[[0, 0]]
                target.copy_(torch.from_numpy(np.ascontiguousarray(known)).reshape(target.shape))

    def take_layers(self, other: Encoder, layers: list[int]) -> None:
        """Take everything from another encoder, and of its layers those that are named."""
        state = {name: value for name, value in other.state_dict().items() if not name.startswith("layers.")}
        for number, layer in enumerate(layers):
            chosen = other.layers[layer].state_dict()
            state |= {f"layers.{number}.{name}": value for name, value in chosen.items()}
        self.load_state_dict(state)

    def round(self, mode: str) -> None:
        """Set the mode of all rounders and products: off, measure, watch or on."""
        for module in self.modules():
            if isinstance(module, Rounder):
                module.mode = mode
            elif isinstance(module, Product):
                module.rounded = mode == "on"

    def round_words(self) -> None:
        """Round the table of words to 255 steps per row, as it is stored."""
        with torch.no_grad():
            table = self.words.weight
            step = table.abs().amax(1, keepdim=True).clamp_min(1e-8) / 127
            table.copy_((table / step).round() * step)


def floats(blocks: np.ndarray) -> np.ndarray:
    """Return the numbers of blocks: a step in half precision, and 32 numbers of four bits."""
    step, packed = blocks[..., :2].copy().view("<f2").astype(np.float32), blocks[..., 2:]
    values = np.concatenate([packed & 15, packed >> 4], -1).astype(np.float32) - 8
    return (values * step).reshape(*blocks.shape[:-2], -1)


def _name(name: str) -> str:
    """Return our name of a weight of the start."""
    tables = {"emb.word": "words.weight", "emb.pos": "positions.weight", "emb.type": "segments.weight"}
    if name in tables:
        return tables[name]
    head, _, part = name.rpartition(".")
    part = {"w": "weight", "b": "bias"}[part]
    if head == "emb.ln":
        return f"norm.{part}"
    layer, _, kind = head.partition(".")
    names = {
        "q": "query", "k": "key", "v": "value", "ao": "attended",
        "aln": "attended_norm", "fi": "inner", "fo": "outer", "oln": "norm",
    }  # fmt: skip
    return f"layers.{layer[1:]}.{names[kind]}.{part}"
