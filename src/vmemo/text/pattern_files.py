"""Regular expressions that are kept as data: files of sections, with one alternative per line.

The section [names] defines patterns that other lines name in angle brackets. A line that begins with # is a comment.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from importlib.resources import files

_NAME = re.compile(r"<([a-z ]{1,30})>")


def read_patterns(file: str) -> Mapping[str, list[str]]:
    """Return the lines of each section of a file below `vmemo.text`, with named patterns in place of their names."""
    sections, names = defaultdict[str, list[str]](list), dict[str, str]()
    section = ""
    for line in files("vmemo.text").joinpath(file).read_text(encoding="utf-8").splitlines():
        if re.fullmatch(r"\[[a-z_ -]+\]", line):
            section = line[1:-1]
        elif line and line[0] != "#":
            pattern = _NAME.sub(lambda name: names.get(name[1], name[0]), line)
            if section == "names":
                name, _, names_pattern = pattern.partition(" = ")
                names[name] = names_pattern
            else:
                sections[section].append(pattern)
    return sections
