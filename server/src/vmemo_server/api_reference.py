"""The API reference as HTML, rendered from the OpenAPI description."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

Described = Mapping[str, Any]
"""A part of an OpenAPI description."""
_CODE = re.compile(r"`([^`]+)`")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_REFERENCE = "#/components/schemas/"
_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters, at least",
    "maxLength": "characters, at most",
    "minItems": "items, at least",
    "maxItems": "items, at most",
}


def render(described: Described) -> str:
    """Return the body of a page with every operation and schema."""
    operations = [
        (path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    sections: list[str] = []
    for tag in described["tags"]:
        own = [_operation(*each) for each in operations if each[2]["tags"][0] == tag["name"]]
        sections.append(f"<h2>{escape(tag['name'])}</h2>{_text(tag['description'])}{''.join(own)}")
    schemas = [_schema(name, schema) for name, schema in sorted(described["components"]["schemas"].items())]
    return (
        f"<h1>API reference</h1>{_text(described['info']['description'])}"
        '<p>The <a href="openapi.json">OpenAPI description</a> has the same as JSON.</p>'
        f"{''.join(sections)}<h2>Schemas</h2>{''.join(schemas)}"
    )


def _operation(path: str, method: str, operation: Described) -> str:
    first, _, rest = operation["description"].partition("\n\n")
    body = operation.get("requestBody", {}).get("content", {})
    examples = [each["value"] for content in body.values() for each in content.get("examples", {}).values()]
    parts = [
        _text(rest),
        _table("Parameters", map(_parameter, operation.get("parameters", ()))),
        _table("Request body", ((_type(content.get("schema", {})), escape(kind)) for kind, content in body.items())),
        f"<pre>{escape(_curl(path, method, operation, examples))}</pre>",
        _table("Responses", _responses(operation["responses"])),
    ]
    heading = f"<b>{method.upper()}</b> <code>{escape(path)}</code> <span>{_inline(first)}</span>"
    return f'<details id="{escape(operation["operationId"])}"><summary>{heading}</summary>{"".join(parts)}</details>'


def _parameter(parameter: Described) -> tuple[str, ...]:
    required = "required" if parameter.get("required") else "optional"
    schema = parameter["schema"]
    return (
        f"<code>{escape(parameter['name'])}</code>",
        f"{parameter['in']}, {required}",
        _type(schema),
        _inline(parameter.get("description", "")) + _notes(schema),
    )


def _responses(responses: Described) -> Iterator[tuple[str, ...]]:
    """Yield the successful responses, and all errors, which have one schema, in one row."""
    errors = [status for status in responses if int(status) >= 400]
    for status, response in responses.items():
        if status not in errors:
            kinds = [
                f"{_type(content.get('schema', {}))} {escape(kind)}"
                for kind, content in response.get("content", {}).items()
            ]
            yield status, "<br>".join(kinds), _inline(response.get("description", ""))
    if errors:
        yield ", ".join(errors), _type({"$ref": f"{_REFERENCE}ProblemDetails"}), "An error."


def _curl(path: str, method: str, operation: Described, examples: list[object]) -> str:
    url = _PLACEHOLDER.sub(lambda found: found[1].upper(), path)
    words = ["curl", "-X", method.upper(), f'"$VMEMO_SERVER{url}"']
    if operation.get("security"):
        words += ["-H", '"Authorization: Bearer $VMEMO_API_KEY"']
    for kind in operation.get("requestBody", {}).get("content", {}):
        words += ["-H", f"'Content-Type: {kind}'"]
    if examples:
        words += ["-d", shlex.quote(json.dumps(examples[0], ensure_ascii=False))]
    elif "requestBody" in operation:
        words += ["--data-binary", "@body"]
    return " ".join(words)


def _schema(name: str, schema: Described) -> str:
    required = schema.get("required", ())
    rows = (
        (
            f"<code>{escape(field)}</code>",
            "required" if field in required else "",
            _type(inner),
            _inline(inner.get("description", "")) + _notes(inner),
        )
        for field, inner in schema.get("properties", {}).items()
    )
    shown = _table("", rows) if "properties" in schema else f"<p>{_type(schema)}</p>"
    return (
        f'<details id="{_anchor(name)}"><summary><code>{escape(name)}</code></summary>'
        f"{_text(schema.get('description', ''))}{shown}</details>"
    )


def _type(schema: Described) -> str:
    """Return the type of a value; a name links to its schema."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return f'<a href="#{_anchor(name)}">{escape(name)}</a>'
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return " | ".join(dict.fromkeys(map(_type, schema[choice])))
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return " | ".join(escape(json.dumps(value)) for value in values)
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_type(schema['additionalProperties'])}"
    return escape(f"{kind} ({schema['format']})" if "format" in schema else str(kind))


def _notes(schema: Described) -> str:
    notes = [f"{words} {schema[bound]:g}" for bound, words in _BOUNDS.items() if bound in schema]
    if "default" in schema:
        notes.append(f"default {json.dumps(schema['default'])}")
    return f" <i>{escape('; '.join(notes))}</i>" if notes else ""


def _anchor(name: str) -> str:
    return "schema-" + re.sub(r"\W", "_", name)


def _table(heading: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table of cells in HTML, or nothing if there are no rows."""
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    title = f"<h4>{heading}</h4>" if heading else ""
    return f"{title}<table>{lines}</table>" if lines else ""


def _text(text: str) -> str:
    """Return paragraphs."""
    return "".join(f"<p>{_inline(part)}</p>" for part in text.split("\n\n") if part.strip())


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))
