"""Check that regular expressions take linear time: `python scripts/check_regex.py`.

Imports every module of `vmemo`, records the patterns that it creates, and reports unbounded repeats that can share one
run of text: a failed match tries every way to divide the run. A search counts as a repeat before the pattern. Exits
with 1 if it reports anything.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from regex_graph import find_overlaps

SOURCE = Path("src/vmemo")
SEARCHES = frozenset(("search", "finditer", "findall", "sub", "subn", "split"))
METHODS = SEARCHES | {"match", "fullmatch"}
ALLOWED = {
    "src/vmemo/text/redact.py:_PRIVATE_KEY": "its repeat ends at five hyphens, with which every match begins",
    "src/vmemo/text/redact.py:_NAMED_KEY": "a match covers all text that its repeat has scanned",
    "src/vmemo/text/redact.py:_NAMED_PASSWORD": "a match covers all text that its repeat has scanned",
    "src/vmemo/embedding/token_counter.py:_CHUNK": "a match covers all text that its repeat has scanned",
}
"""Reason for each pattern that is not checked."""


class Pattern(NamedTuple):
    """A pattern of the source, and the methods that it is used with; none if that is not known."""

    place: str
    name: str
    source: str
    flags: int
    methods: frozenset[str]

    @property
    def key(self) -> str:
        """The file and the name of the pattern."""
        return f"{self.place.partition(':')[0]}:{self.name}"

    def problems(self) -> Iterator[str]:
        """Yield a description of each pair of repeats that overlap."""
        searched = not self.methods or not self.methods.isdisjoint(SEARCHES)
        must_end = not self.methods or "fullmatch" in self.methods
        for first, second in find_overlaps(self.source, self.flags, searched=searched, must_end=must_end):
            yield f"{self.place}: {self.name}: {second} may be tried from " + (
                f"every end of {first}" if first else "every start of a search"
            )


def created_patterns() -> list[Pattern]:
    """Import all modules and return the patterns that they create on import."""
    found: list[tuple[str, int, str, int]] = []
    compile_pattern: Any = re.compile
    lazy: Any = _load("vmemo.text.lazy_regex").LazyPattern
    create_lazy = lazy.__init__

    def record(source: object, flags: int) -> None:
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        file = frame.f_code.co_filename
        while frame.f_code.co_name != "<module>" and frame.f_back is not None:
            frame = frame.f_back
        if isinstance(source, str) and SOURCE.absolute() in Path(file).parents:
            found.append((file, frame.f_lineno, source, flags))

    def compile_recorded(source: Any, flags: Any = 0) -> Any:
        record(source, flags)
        return compile_pattern(source, flags)

    def create_recorded(self: Any, source: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        record(source, flags)
        create_lazy(self, source, flags)

    re.compile, lazy.__init__ = compile_recorded, create_recorded
    try:
        package = importlib.import_module("vmemo")
        for module in pkgutil.walk_packages(package.__path__, "vmemo."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    finally:
        re.compile, lazy.__init__ = compile_pattern, create_lazy
    return [_named(*each) for each in found]


def _load(name: str) -> ModuleType:
    """Load a module without the packages that it is in, which would import others."""
    spec = importlib.util.spec_from_file_location(name, SOURCE.parent.joinpath(*name.split(".")).with_suffix(".py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _named(file: str, line: int, source: str, flags: int) -> Pattern:
    path = Path(file).relative_to(Path.cwd())
    tree = _parsed(path)
    statement = next(node for node in tree.body if node.lineno <= line <= (node.end_lineno or line))
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            methods = _uses(tree).get(name, frozenset())
        case _:
            name, methods = "?", frozenset[str]()
    return Pattern(f"{path}:{line}", name, source, int(flags), methods)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _uses(tree: ast.Module) -> dict[str, frozenset[str]]:
    """Return the methods that are called on each name, or on the items of it; none if it is also used otherwise."""
    called: dict[str, set[str]] = defaultdict(set)
    understood: set[ast.AST] = set()
    items: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        match node:
            case (
                ast.For(target=ast.Name(id=item), iter=source)
                | ast.comprehension(target=ast.Name(id=item), iter=source)
            ):
                names = [each for each in ast.walk(source) if isinstance(each, ast.Name)]
                items[item].update(each.id for each in names)
                understood.update(names)
            case ast.Attribute(value=value, attr=method) if method in METHODS:
                root = value.value if isinstance(value, ast.Attribute) else value
                if isinstance(root, ast.Name):
                    called[root.id].add(method)
                    understood.add(root)
            case _:
                pass
    for item, names in items.items():
        for name in names:
            called[name] |= called.get(item, set())
    loads = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    others = {node.id for node in loads if node not in understood}
    return {name: frozenset(methods) for name, methods in called.items() if name not in others}


def inline_patterns() -> Iterator[Pattern]:
    """Yield the literal patterns that functions pass to `re`."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(_parsed(path)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                    args=[ast.Constant(value=str(source)), *_],
                ) if method in METHODS:
                    yield Pattern(f"{path}:{node.lineno}", f"re.{method}", source, 0, frozenset((method,)))
                case _:
                    pass


def grammar_patterns() -> Iterator[Pattern]:
    """Yield the patterns of the time grammar, which are searched for in the tags of a text's tokens."""
    find, grammar = (importlib.import_module(f"vmemo.text.temporal.{name}") for name in ("find", "grammar"))
    stages = (*find.NUMBER_STAGES, find.DATE_STAGE, *find.COMBINATION_STAGES)
    for source in (*(rule.pattern for stage in stages for rule in stage.rules), *find.RECURRING_PATTERNS):
        yield Pattern("src/vmemo/text/temporal", source, grammar.compile_pattern(source).pattern, 0, SEARCHES)


def main() -> int:
    """Print the problems and return the exit status."""
    # The trees of all files stay, and would be searched for garbage again and again.
    gc.disable()
    patterns = [*created_patterns(), *inline_patterns(), *grammar_patterns()]
    problems = [problem for pattern in patterns if pattern.key not in ALLOWED for problem in pattern.problems()]
    unused = ALLOWED.keys() - {pattern.key for pattern in patterns}
    problems += [f"{key}: allowed, but there is no such pattern" for key in unused]
    print("\n".join(problems) if problems else f"{len(patterns)} regular expressions take linear time.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
