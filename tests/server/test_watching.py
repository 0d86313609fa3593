"""What is told of requests: logs, metrics and traces, without a word of any memory."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path

import pytest
from fastapi import FastAPI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from serving import HOST, Served, running, serving

from vmemo import Memory
from vmemo.errors import StoreBusy
from vmemo.models.results import Job
from vmemo.server import House, ServerOptions, create_app
from vmemo.server.logs import Log
from vmemo.server.metrics import Metrics
from vmemo.server.observability import Seen
from vmemo.server.tracing import Traced
from vmemo.testing import HashEmbedder


def house(folder: Path) -> House:
    return House(Memory(f"sqlite:///{folder / 'memory.db'}", embedder=HashEmbedder()), keyless=True)


def job() -> Job:
    return Job.of(
        {"id": 1, "bank": "a", "kind": "process", "due": "2026-01-01T00:00Z", "created_at": "2026-01-01T00:00Z"}
    )


def test_an_error_that_nobody_foresaw_is_told_without_its_text(tmp_path: Path) -> None:
    told = StringIO()
    app = create_app(house(tmp_path), ServerOptions(hosts=(HOST,)), [Log("json", told)])

    def broken() -> None:
        raise RuntimeError("Ana keeps her keys under the mat")

    app.get("/broken")(broken)
    with running(app) as url, Served(url, house(tmp_path), app).http() as client:
        answer = client.get("/broken", headers={"X-Request-Id": "mine-1"})
    assert answer.status_code == 500
    assert answer.json()["request_id"] == "mine-1"
    assert "mat" not in answer.text
    line = json.loads(told.getvalue().splitlines()[-1])
    assert (line["status"], line["level"], line["request"]) == (500, "error", "mine-1")
    assert line["error"].startswith("RuntimeError at broken:")
    assert "mat" not in told.getvalue()


def test_a_path_that_no_route_took_is_not_logged(tmp_path: Path) -> None:
    told = StringIO()
    app = create_app(house(tmp_path), ServerOptions(hosts=(HOST,)), [Log("json", told)])
    with running(app) as url, Served(url, house(tmp_path), app).http() as client:
        assert client.get("/my-secret-is-4711").status_code == 404
    assert "4711" not in told.getvalue()


@pytest.mark.parametrize("format", ["text", "json"])
def test_work_and_troubles_are_logged(format: str) -> None:
    told = StringIO()
    log = Log("json" if format == "json" else "text", told)
    log.work(job(), None, 0.5)
    log.work(job(), ValueError("what Ana said"), 0.5)
    log.trouble("audit", StoreBusy("Another process held the database."))
    lines = told.getvalue().splitlines()
    assert len(lines) == 3
    assert "process" in lines[0]
    assert "ValueError" in lines[1]
    assert "StoreBusy: Another process held the database." in lines[2]
    assert "Ana" not in told.getvalue()


def test_metrics_count_requests_by_route_and_never_name_a_bank(served: Served) -> None:
    with served.http() as client:
        client.put("/v1/banks/someones-name")
        client.get("/v1/banks/someones-name")
        client.get("/v1/banks/nobodys-name")
        told = client.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain")
    assert 'vmemo_requests_total{door="rest",method="GET",route="/v1/banks/{bank}",status="200"} 1.0' in told.text
    assert 'vmemo_requests_total{door="rest",method="GET",route="/v1/banks/{bank}",status="404"} 1.0' in told.text
    assert "process_resident_memory_bytes" in told.text
    assert "-name" not in told.text


def test_metrics_take_a_key_to_everything(locked: Served) -> None:
    for key, status in ((None, 401), (locked.key("admin", "a"), 403), (locked.key("read"), 403), (locked.key(), 200)):
        with locked.http(key) as client:
            assert client.get("/metrics").status_code == status


def test_metrics_count_work_and_troubles() -> None:
    metrics = Metrics()
    metrics.work(job(), None, 0.2)
    metrics.work(job(), StoreBusy("later"), 0.2)
    metrics.trouble("audit", StoreBusy("later"))
    metrics.request(Seen(method="GET", route="/health", status=200, seconds=0.001))
    told = metrics.told().decode()
    assert 'vmemo_work_total{kind="process",outcome="done"} 1.0' in told
    assert 'vmemo_work_total{kind="process",outcome="failed"} 1.0' in told
    assert 'vmemo_troubles_total{what="audit"} 1.0' in told


def test_a_request_is_a_span_inside_its_callers(tmp_path: Path) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    app = create_app(house(tmp_path), ServerOptions(hosts=(HOST,)))

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncGenerator[None]:
        async with app.router.lifespan_context(app):
            yield

    traced = FastAPI(lifespan=living)
    traced.mount("/", Traced(app, provider))
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with running(traced) as url, Served(url, house(tmp_path), app).http() as client:
        client.get("/v1/banks/nobody", headers={"traceparent": caller})
    (span,) = spans.get_finished_spans()
    assert span.name == "GET /v1/banks/{bank}"
    assert dict(span.attributes or {})["http.response.status_code"] == 404
    assert span.parent is not None
    assert f"{span.parent.span_id:x}" == "b7ad6b7169203331"
    assert "nobody" not in str(span.attributes)


def test_a_served_memory_is_watched_by_default(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'memory.db'}") as server, server.http() as client:
        assert client.get("/health").headers["x-content-type-options"] == "nosniff"
        assert "/health" in client.get("/metrics").text
