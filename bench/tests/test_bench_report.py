"""The report as JSON and as an HTML page without external references."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from vmemo_bench.pages.report_page import render
from vmemo_bench.report import Report

RETRIEVAL = Report(
    benchmark="sample",
    metrics={"recall@10": 0.7, "evidence@500": 0.5, "evidence@1000": 0.8, "mrr": 0.6},
    categories={"single": {"recall@10": 1.0, "evidence@1000": 1.0}, "<script>alert(1)</script>": {"recall@10": 0}},
    timings={"embed": {"p50_ms": 9.1, "p95_ms": 12.0}, "total": {"p50_ms": 14.0, "p95_ms": 20.5}},
    config={"embedder": "toy & co", "questions": 2, "limit": None},
)
SPEED = Report(
    benchmark="speed",
    metrics={
        "recall_p50_over_embed@1000": 1.2,
        "recall_p50_over_embed@10000": 1.9,
        "recall_p95_over_embed@1000": 1.5,
        "recall_p95_over_embed@10000": 2.4,
        "rss_mb@1000": 210.0,
        "rss_mb@10000": 260.0,
        "retain_over_embed": 0.9,
    },
    timings={"recall@1000/total": {"p50_ms": 10.0, "p95_ms": 12.0}},
)


class References(HTMLParser):
    """Collects every tag, and the attributes that could load something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [f"{tag} {name}" for name, _ in attrs if name in {"src", "href", "srcset", "data"}]


def test_the_json_has_the_documented_keys_in_order() -> None:
    body = json.loads(RETRIEVAL.to_json())
    assert list(body) == ["benchmark", "categories", "config", "metrics", "timings"]
    assert body["metrics"]["recall@10"] == 0.7
    assert body["timings"]["total"] == {"p50_ms": 14.0, "p95_ms": 20.5}
    assert list(body["metrics"]) == sorted(body["metrics"])


def test_pages_have_no_external_references() -> None:
    for page in map(render, (RETRIEVAL, SPEED)):
        found = References(page)
        assert found.references == []
        assert not {"script", "link", "img", "iframe"} & set(found.tags)
        assert not re.search(r"https?:|url\(|@import|//", page.removeprefix("<!doctype html>"))


def test_pages_contain_plots_and_escape_text() -> None:
    page = render(RETRIEVAL)
    assert page.count("<svg") == 3
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "toy &amp; co" in page


def test_a_speed_page_plots_the_ratios_by_size() -> None:
    page = render(SPEED)
    assert page.count("<polyline") == 3
    assert "1,000" in page
    assert "10,000" in page


def test_an_empty_report_renders() -> None:
    assert "</html>" in render(Report(benchmark="locomo", metrics={}))
    assert "</html>" in render(Report(benchmark="speed", metrics={}))
