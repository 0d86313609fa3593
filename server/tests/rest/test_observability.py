"""Logs, metrics and traces of requests and jobs, without any text of a memory."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from live_server import HOST, LiveServer, run_app
from max_wait import MAX_WAIT
from vmemo import Memory
from vmemo.errors import StoreBusy
from vmemo.models.results import Job
from vmemo.sync import portal
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server.app import ServerOptions, create_app
from vmemo_server.dependencies import AppState
from vmemo_server.logs import LogFormat, ServerLog
from vmemo_server.metrics import Metrics
from vmemo_server.observability import RequestLog
from vmemo_server.state import ServerState


def app_state(folder: Path) -> AppState:
    return AppState(Memory(f"sqlite:///{folder / 'memory.db'}", embedder=HashEmbedder()), keyless=True)


def client(url: str) -> httpx2.Client:
    return httpx2.Client(base_url=url, timeout=MAX_WAIT, trust_env=False, verify=False)


def job() -> Job:
    return Job.of(
        {"id": 1, "bank": "a", "kind": "process", "due": "2026-01-01T00:00Z", "created_at": "2026-01-01T00:00Z"}
    )


def test_unexpected_error_is_reported_without_its_text(tmp_path: Path) -> None:
    output = StringIO()
    app = create_app(app_state(tmp_path), ServerOptions(hosts=(HOST,)), [ServerLog("json", output)])

    def broken() -> None:
        raise RuntimeError("Ana keeps her keys under the mat")

    app.get("/broken")(broken)
    with run_app(app) as url, client(url) as http:
        response = http.get("/broken", headers={"X-Request-Id": "mine-1"})
    assert response.status_code == 500
    assert response.json()["request_id"] == "mine-1"
    assert "mat" not in response.text
    line = json.loads(output.getvalue().splitlines()[-1])
    assert (line["status"], line["level"], line["request"]) == (500, "error", "mine-1")
    assert line["error"].startswith("RuntimeError at broken:")
    assert "mat" not in output.getvalue()


def test_no_key_is_logged(database: str) -> None:
    output = StringIO()
    state = AppState(Memory(database, embedder=HashEmbedder()), keyless=False)
    app = create_app(state, ServerOptions(hosts=(HOST,)), [ServerLog("text", output), ServerLog("json", output)])
    _, secret = portal.run(ServerState(state.memory.store).create_key("ops", banks=["*"], permission="admin"))
    with run_app(app) as url, client(url) as http:
        for headers in ({"Authorization": f"Bearer {secret}"}, {"X-Api-Key": secret}):
            created = http.post("/v1/keys", json={"name": "agent", "banks": ["a"]}, headers=headers)
            assert created.status_code == 201
            assert http.get(f"/v1/banks?prefix={secret}", headers=headers).status_code == 200
        assert http.get("/v1/banks", headers={"Authorization": "Bearer vmemo_wrong"}).status_code == 401
    log = output.getvalue()
    assert log.count("/v1/keys") == 4
    assert not [each for each in (secret, created.json()["secret"], "vmemo_wrong") if each in log]


def test_path_without_a_route_is_not_logged(tmp_path: Path) -> None:
    output = StringIO()
    app = create_app(app_state(tmp_path), ServerOptions(hosts=(HOST,)), [ServerLog("json", output)])
    with run_app(app) as url, client(url) as http:
        assert http.get("/my-secret-is-4711").status_code == 404
    assert "4711" not in output.getvalue()


@pytest.mark.parametrize("format", ["text", "json"])
def test_jobs_and_background_errors_are_logged(format: LogFormat) -> None:
    output = StringIO()
    log = ServerLog(format, output)
    log.job(job(), None, 0.5)
    log.job(job(), ValueError("what Ana said"), 0.5)
    log.background_error("audit", StoreBusy("Another process held the database."))
    lines = output.getvalue().splitlines()
    assert len(lines) == 3
    assert "process" in lines[0]
    assert "ValueError" in lines[1]
    assert "StoreBusy: Another process held the database." in lines[2]
    assert "Ana" not in output.getvalue()


def test_metrics_count_requests_by_route_and_never_name_a_bank(server: LiveServer) -> None:
    with server.http() as http:
        http.put("/v1/banks/someones-name")
        http.get("/v1/banks/someones-name")
        http.get("/v1/banks/nobodys-name")
        metrics = http.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    counter = 'vmemo_requests_total{interface="rest",method="GET",route="/v1/banks/{bank}"'
    assert f'{counter},status="200"}} 1.0' in metrics.text
    assert f'{counter},status="404"}} 1.0' in metrics.text
    assert "process_resident_memory_bytes" in metrics.text
    assert "-name" not in metrics.text


def test_invented_methods_are_rejected_and_counted_as_one(server: LiveServer) -> None:
    with server.http() as http:
        for number in range(5):
            refused = http.request(f"INVENTED{number}", "/nowhere" if number else "/health")
            assert (refused.status_code, "GET" in refused.headers["allow"]) == (405, True)
        metrics = http.get("/metrics").text
    assert 'vmemo_requests_total{interface="rest",method="_OTHER",route="-",status="405"} 5.0' in metrics
    assert "INVENTED" not in metrics


def test_metrics_require_admin_permission_for_every_bank(keyed_server: LiveServer) -> None:
    one_bank, read, admin = keyed_server.key("admin", "a"), keyed_server.key("read"), keyed_server.key()
    for key, status in ((None, 401), (one_bank, 403), (read, 403), (admin, 200)):
        with keyed_server.http(key) as http:
            assert http.get("/metrics").status_code == status


def test_metrics_count_jobs_and_background_errors() -> None:
    metrics = Metrics()
    metrics.job(job(), None, 0.2)
    metrics.job(job(), StoreBusy("later"), 0.2)
    metrics.background_error("audit", StoreBusy("later"))
    metrics.request(RequestLog(method="GET", route="/health", status=200, seconds=0.001))
    text = metrics.exposition().decode()
    assert 'vmemo_jobs_total{kind="process",outcome="done"} 1.0' in text
    assert 'vmemo_jobs_total{kind="process",outcome="failed"} 1.0' in text
    assert 'vmemo_background_errors_total{source="audit"} 1.0' in text


def test_request_is_one_span_inside_the_callers_span_and_holds_no_text(tmp_path: Path) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    app = create_app(app_state(tmp_path), ServerOptions(hosts=(HOST,)))
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    try:
        with run_app(app) as url, client(url) as http:
            http.get("/v1/banks/nobody?query=painting", headers={"traceparent": caller})
        (span,) = spans.get_finished_spans()
    finally:
        provider.shutdown()
    assert span.name == "GET /v1/banks/{bank}"
    assert dict(span.attributes or {})["http.response.status_code"] == 404
    assert span.parent is not None
    assert f"{span.parent.span_id:x}" == "b7ad6b7169203331"
    assert not {word for word in ("nobody", "painting") if word in span.to_json()}


def test_server_counts_requests_by_default(server: LiveServer) -> None:
    with server.http() as http:
        assert http.get("/health").headers["x-content-type-options"] == "nosniff"
        assert "/health" in http.get("/metrics").text
