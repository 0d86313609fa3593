"""Check names and docstrings against the style guide: `python scripts/check_style.py [PATH ...]`.

Reports public class names that are defined twice, docstrings that open with an interrogative, wording that the style
guide rules out, and identifiers made of a banned metaphor. Exits with 1 if it reports anything.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ALL = tuple(
    map(
        Path,
        (
            "src",
            "agents",
            "bench",
            "conformance",
            "integrations",
            "neo4j",
            "server",
            "hindsight",
            "models",
            "scripts",
            "tests",
            "examples",
        ),
    )
)
INTERROGATIVES = ("What", "Who", "Whom", "Whose", "Whether", "Where", "How", "Which")
WORDING = {
    r"\btells?\b": "write 'returns', 'describes' or 'shows'",
    r"\bin vain\b": "name the outcome",
    r"\bno news\b": "state the rule",
    r"\bseen to\b": "name the action",
    r"\bgone on (?:from|with)\b": "write 'resumed'",
    r"\bWho \w+ .*\bmust\b": "put the subject first",
}
METAPHORS = frozenset(
    "arriving audience beat books crowd desk door doorkeeper drill elsewhere exam founding gate ground guest house "
    "keeping landing looking mind overheard patience roster room scribe shelf sight strand teller telling "
    "tending troubles visit visitor wakeful watcher wish".split()
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def python_files(paths: tuple[Path, ...]) -> Iterator[Path]:
    """Yield every Python file below the paths."""
    for path in paths:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def docstrings(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every docstring, those of attributes included."""
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text.strip()
            case _:
                pass


def identifiers(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and name of everything that the module defines."""
    for node in nodes:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case _:
                pass


def metaphors(name: str) -> list[str]:
    """Return the banned words that an identifier is made of."""
    return [word for word in (part.lower() for part in _WORDS.findall(name)) if word in METAPHORS]


def problems_of(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield every problem within one file."""
    if found := metaphors(path.stem):
        yield f"{path}: the module's name uses {found[0]!r}"
    nodes = list(ast.walk(tree))
    for line, name in identifiers(nodes):
        if found := metaphors(name):
            yield f"{path}:{line}: {name} uses {found[0]!r}"
    for line, text in docstrings(nodes):
        if text.split(maxsplit=1)[:1] and re.sub(r"\W+$", "", text.split(maxsplit=1)[0]) in INTERROGATIVES:
            yield f"{path}:{line}: the docstring opens with {text.split()[0]!r}"
        for pattern, hint in WORDING.items():
            if match := re.search(pattern, text):
                yield f"{path}:{line}: {match[0]!r}: {hint}"


def duplicates(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield the public class names that several modules define."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path))
    yield from (f"class {name} is defined in {', '.join(paths)}" for name, paths in places.items() if len(paths) > 1)


def main(paths: tuple[Path, ...]) -> int:
    """Print every problem and return the exit code."""
    # The trees of all files stay, and would be searched for garbage again and again.
    gc.disable()
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in python_files(paths or ALL)}
    shipped = {path: tree for path, tree in trees.items() if "src" in path.parts}
    problems = [*duplicates(shipped), *(problem for path in trees for problem in problems_of(path, trees[path]))]
    print("\n".join(problems) or "style: no problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(tuple(Path(each) for each in sys.argv[1:])))
