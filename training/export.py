# pyright: basic, reportMissingImports=false
"""Writes trained weights as the files of the packaged encoder: two int8 networks, and the table of words they share.

    python training/export.py TOKENS.spm FOLDER ENCODER.npz DEEP.npz [WORDS.npz]

Needs `onnx`, `onnxruntime`, `sentencepiece` and torch. Weights are those of `Encoder.state_dict()`; `words.weight` may
be in any of the files. Products take bytes between the limits that training found, and weights of 127 steps per output;
all else is float32, stored as float16. A network gets rows of the table of words instead of ids, so that the table can
be mapped from its file. Each network is compared with `encoder.py`.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import sentencepiece
import torch
from encoder import EPSILON, HEADS, READER_HEADS, READER_WIDTH, TAGS, TOKEN_WIDTH, WEIGHT_STEPS, WIDTH, Encoder
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
PLACES = 512
LEAST, LEAST_IN_BATCH = 0.99, 0.99999
"""The least cosine between the network and `encoder.py`, and between a text alone and in a batch.

Float arithmetic in another order moves a number across the border of two steps now and then, and later layers amplify
that: with a relative change of 1e-6 of its input, `encoder.py` itself has a cosine of 0.9958 to 1, 0.9996 in the mean,
and twelve layers differ more.
"""
SAMPLES = (
    "Where does Maya live now?",
    "Maya: I moved to Hamburg in May, after three years in Lisbon. The flat is small, but it has a balcony.",
    "東京に引っ越しました。",
    "Ich nehme ab heute keinen Zucker mehr in den Kaffee, bitte merk dir das!",
    "ok",
    "She said that the appointment on 3 March is moved to Thursday, because the doctor is ill. " * 6,
)


class Graph:
    """Collects nodes and constants; each method returns the name of its result."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, operator: str, *inputs: str, domain: str = "", out: str = "", **attributes: object) -> str:
        """Add a node with one output."""
        name = out or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add a constant of the type that it has."""
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def integers(self, *values: int) -> str:
        """Add whole numbers."""
        return self.constant("_".join(["integers", *map(str, values)]), np.array(values, np.int64))

    def floats(self, name: str, value: np.ndarray | None = None) -> str:
        """Add a weight, which is stored as float16 and becomes float32 when the file is loaded."""
        if name not in self.constants:
            given = self.weights[name] if value is None else value
            self.constant(name, given.astype(np.float16))
            self.add("Cast", name, out=f"{name}_float", to=TensorProto.FLOAT)
        return f"{name}_float"

    def linear(self, states: str, name: str, *, bias: bool = True) -> str:
        """Add a linear map in float32."""
        found = self.add("MatMul", states, self.floats(f"{name}.weight", self.weights[f"{name}.weight"].T))
        return self.add("Add", found, self.floats(f"{name}.bias")) if bias else found

    def normed(self, states: str, name: str, epsilon: float) -> str:
        """Add a layer norm."""
        gain, bias = self.floats(f"{name}.weight"), self.floats(f"{name}.bias")
        return self.add("LayerNormalization", states, gain, bias, epsilon=epsilon)

    def product(self, states: str, layer: str, number: int, names: tuple[str, ...]) -> str:
        """Add linear maps of the same input as one product of bytes."""
        given, weight, scale, steps, zero, bias = self.rounded(states, layer, number, names)
        return self.add("MatMulIntegerToFloat", given, weight, scale, steps, zero, "", bias, domain=MICROSOFT)

    def rounded(self, states: str, layer: str, number: int, names: tuple[str, ...]) -> tuple[str, ...]:
        """Add the inputs of a product: states and weights in bytes, their steps, the states' zero, and the bias."""
        rounder = f"{layer}.rounders.{number}"
        low, high = (self.weights[f"{rounder}.{limit}"].astype(np.float32) for limit in ("low", "high"))
        step = np.maximum((high - low) / np.float32(255), np.float32(1e-8))
        scale = self.constant(f"{rounder}.step", step)
        zero = self.constant(f"{rounder}.zero", np.rint(-low / step).astype(np.uint8))
        weight = np.concatenate([self.weights[f"{layer}.{name}.weight"] for name in names]).astype(np.float32)
        steps = np.maximum(np.abs(weight).max(1), np.float32(1e-8)) / np.float32(WEIGHT_STEPS)
        # As torch rounds: a product with the inverse decides ties otherwise than a quotient.
        rounded = np.rint(weight * (1 / steps)[:, None]).clip(-WEIGHT_STEPS, WEIGHT_STEPS).astype(np.int8)
        bias = np.concatenate([self.weights[f"{layer}.{name}.bias"] for name in names])
        name = f"{layer}.{'_'.join(names)}"
        if (self.weights[f"{rounder}.shrink"] != 1).any():
            states = self.add("Mul", states, self.floats(f"{rounder}.shrink"))
        return (
            self.add("QuantizeLinear", states, scale, zero),
            self.constant(f"{name}.weight", rounded.T),
            scale,
            self.constant(f"{name}.steps", steps),
            zero,
            self.floats(f"{name}.bias", bias),
        )


def layer(graph: Graph, states: str, name: str) -> str:
    """Add a layer, and return its states."""
    given, weight, scale, steps, zero, bias = graph.rounded(states, name, 0, ("query", "key", "value"))
    whole = graph.constant("weights_zero", np.array(0, np.int8))
    inputs = (given, weight, bias, scale, steps, "mask", zero, whole)
    mixed = graph.add("QAttention", *inputs, domain=MICROSOFT, num_heads=HEADS)
    # SkipLayerNormalization takes five times as long as these two.
    states = graph.add("Add", states, graph.product(mixed, name, 1, ("attended",)))
    states = graph.normed(states, f"{name}.attended_norm", EPSILON)
    inner = graph.add("Gelu", graph.product(states, name, 2, ("inner",)), domain=MICROSOFT)
    return graph.normed(graph.add("Add", states, graph.product(inner, name, 3, ("outer",))), f"{name}.norm", EPSILON)


def reader(graph: Graph, middle: str, last: str, kept: str, count: str) -> None:
    """Add the reader's outputs, which are empty unless the input `read` is true."""
    before = len(graph.nodes)
    tags, noise = read(graph, middle, last, kept, count)
    nodes = graph.nodes[before:]
    del graph.nodes[before:]
    branches = {
        "then_branch": helper.make_graph(nodes, "reader", [], [values(tags, 3), values(noise, 1)]),
        "else_branch": helper.make_graph(
            [
                helper.make_node(
                    "Constant", [], ["no_tags"], value=numpy_helper.from_array(np.zeros((0, 0, TAGS), "f4"))
                ),
                helper.make_node("Constant", [], ["no_noise"], value=numpy_helper.from_array(np.zeros(0, "f4"))),
            ],
            "none",
            [],
            [values("no_tags", 3), values("no_noise", 1)],
        ),
    }
    graph.nodes.append(helper.make_node("If", ["read"], ["tags", "noise"], **branches))


def values(name: str, rank: int) -> onnx.ValueInfoProto:
    """Return the description of floats of any shape of a rank."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank)


def read(graph: Graph, middle: str, last: str, kept: str, count: str) -> tuple[str, str]:
    """Add the reader, and return the probabilities of each token's tags, and of the text being noise."""
    states = graph.linear(graph.add("Concat", middle, last, axis=-1), "reader.join")
    packed = graph.linear(graph.normed(states, "reader.first", 1e-5), "reader.mix")
    parts, sizes = ["reader_query", "reader_key", "reader_value"], graph.integers(*[READER_WIDTH] * 3)
    graph.nodes.append(helper.make_node("Split", [packed, sizes], parts, axis=-1))
    mixed = graph.add("MultiHeadAttention", *parts, "", "mask", domain=MICROSOFT, num_heads=READER_HEADS)
    states = graph.add("Add", states, graph.linear(mixed, "reader.mixed"))
    inner = graph.linear(graph.normed(states, "reader.second", 1e-5), "reader.inner")
    outer = graph.linear(graph.add("Gelu", inner, domain=MICROSOFT), "reader.outer")
    states = graph.add("Add", states, outer)
    tags = graph.add("Sigmoid", graph.linear(states, "reader.tags"))
    mean = mean_of(graph, states, kept, count)
    padded = graph.constant("padded", np.array(-1e4, np.float32))
    most = graph.add("Where", graph.add("Cast", kept, to=TensorProto.BOOL), states, padded)
    most = graph.add("ReduceMax", most, graph.integers(1), keepdims=0)
    noise = graph.linear(graph.add("Concat", mean, most, axis=-1), "reader.noise")
    return tags, graph.add("Squeeze", graph.add("Sigmoid", noise), graph.integers(1))


def mean_of(graph: Graph, states: str, kept: str, count: str) -> str:
    """Add the mean of the states that are not padding."""
    total = graph.add("ReduceSum", graph.add("Mul", states, kept), graph.integers(1), keepdims=0)
    return graph.add("Div", total, count)


def network(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Return the network of these weights."""
    graph = Graph(weights)
    layers = sum(name.endswith(".query.weight") for name in weights)
    length = graph.add("Shape", "words", start=1, end=2)
    places = graph.constant("positions", weights["positions.weight"].astype(np.float16))
    places = graph.add("Slice", places, graph.integers(0), length, graph.integers(0))
    places = graph.add("Cast", places, to=TensorProto.FLOAT)
    kinds = graph.add("Unsqueeze", graph.add("Gather", graph.floats("segments.weight"), "segment"), graph.integers(1))
    states = graph.normed(graph.add("Add", graph.add("Add", "words", places), kinds), "norm", EPSILON)
    found = []
    for number in range(layers):
        states = layer(graph, states, f"layers.{number}")
        found.append(states)
    kept = graph.add("Unsqueeze", graph.add("Cast", "mask", to=TensorProto.FLOAT), graph.integers(2))
    count = graph.add("ReduceSum", kept, graph.integers(1), keepdims=0)
    pooled = graph.linear(mean_of(graph, states, kept, count), "pooling")
    graph.add("LpNormalization", pooled, out="pooled", axis=-1, p=2)
    graph.add("Squeeze", graph.add("Tanh", graph.linear("pooled", "tense")), graph.integers(1), out="tense")
    graph.add("LpNormalization", graph.linear(states, "tokens", bias=False), out="tokens", axis=-1, p=2)
    graph.add("Squeeze", graph.linear(states, "attention", bias=False), graph.integers(2), out="attention")
    reader(graph, found[layers // 2 - 1], states, kept, count)
    shapes = {
        "pooled": ["n", WIDTH], "tokens": ["n", "length", TOKEN_WIDTH], "attention": ["n", "length"], "tense": ["n"],
        "tags": ["read", "length", TAGS], "noise": ["read"],
    }  # fmt: skip
    made = helper.make_graph(
        graph.nodes,
        "encoder",
        [
            helper.make_tensor_value_info("words", TensorProto.FLOAT, ["n", "length", WIDTH]),
            helper.make_tensor_value_info("mask", TensorProto.INT32, ["n", "length"]),
            helper.make_tensor_value_info("segment", TensorProto.INT64, ["n"]),
            helper.make_tensor_value_info("read", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        list(graph.constants.values()),
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=9)


def rounded_words(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the table of words in int8, and the step of each row in float16."""
    table = table.astype(np.float32)
    step = (np.maximum(np.abs(table).max(1), np.float32(1e-3)) / np.float32(127)).astype(np.float16)
    return np.rint(table / step[:, None].astype(np.float32)).clip(-127, 127).astype(np.int8), step


def compare(path: Path, weights: dict[str, np.ndarray], words: np.ndarray, tokenizer: Path) -> None:
    """Print how far the network is from `encoder.py`, and a batch from its texts alone; raise if that is too far."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    model = Encoder(len(pieces), sum(name.endswith(".query.weight") for name in weights))
    state = {name: torch.from_numpy(value.astype(np.float32)) for name, value in weights.items()}
    model.load_state_dict(state | {"words.weight": torch.from_numpy(words)})
    model.eval().round("on")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    ids = [[1, *found[: PLACES - 2], 2] for found in pieces.encode(list(SAMPLES))]
    width = max(map(len, ids))
    batch = np.array([row + [0] * (width - len(row)) for row in ids])
    mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in ids], np.int32)
    for segment in (0, 1):
        found = session.run(names, inputs(words[batch], mask, segment))
        with torch.no_grad():
            given = torch.from_numpy(mask).bool()
            outputs = model(torch.from_numpy(batch), given, segment)
            tags, noise = model.read(outputs, given)
        theirs = [outputs.pooled, outputs.tokens, outputs.attention, outputs.tense, tags.sigmoid(), noise.sigmoid()]
        kept = mask.astype(bool)
        apart = {}
        for name, one, other in zip(names, found, theirs, strict=True):
            rows = one.ndim > 1 and one.shape[1] == width
            difference = np.abs(one - other.numpy())
            apart[name] = float((difference[kept] if rows else difference).max())
        near = (found[0] * outputs.pooled.numpy()).sum(1).min()
        alone = [
            session.run(["pooled"], inputs(words[[row]], np.ones((1, len(row)), np.int32), segment)) for row in ids
        ]
        same = min((one[0][0] * two).sum() for one, two in zip(alone, found[0], strict=True))
        largest = ", ".join(f"{name} {value:.1e}" for name, value in apart.items())
        print(f"{path.name}: cosine {near:.6f}, alone and in a batch {same:.7f}; largest differences: {largest}")
        if near < LEAST or same < LEAST_IN_BATCH:
            raise SystemExit(f"{path.name} differs too much")


def inputs(words: np.ndarray, mask: np.ndarray, segment: int) -> dict[str, np.ndarray]:
    """Return the inputs of a pass with the reader."""
    return {"words": words, "mask": mask, "segment": np.full(len(mask), segment), "read": np.array(True)}


def main() -> None:
    """Write all files, compare them, and print their hashes."""
    tokens, folder, *sources = map(Path, sys.argv[1:])
    parts = [dict(np.load(source)) for source in sources]
    tables = [part.pop("words.weight") for part in parts if "words.weight" in part]
    if not all(np.array_equal(table, tables[0]) for table in tables):
        raise SystemExit("The files have different tables of words, but the networks share one")
    words, step = rounded_words(tables[0])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(tokens, folder / "tokens.spm")
    np.save(folder / "words.npy", words)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokens))
    content = [id > 2 and any(map(str.isalnum, pieces.id_to_piece(id))) for id in range(len(pieces))]
    np.savez_compressed(folder / "tokens.npz", step=step, content=np.array(content))
    for file, weights in zip(("encoder.onnx", "deep.onnx"), parts, strict=False):
        model = network(weights)
        onnx.checker.check_model(model)
        onnx.save(model, folder / file)
        compare(folder / file, weights, words * step[:, None].astype(np.float32), folder / "tokens.spm")
    for path in sorted(folder.iterdir()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.name} {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
