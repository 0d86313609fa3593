"""Metrics for Prometheus, an extra. `docs/operations.md` lists them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from vmemo.models.results import Job
from vmemo.server.observability import Seen

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """Counts what is watched, in a registry of its own. Labels hold routes and kinds, never a bank's or key's name."""

    media = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "vmemo_requests", "Requests that have ended", ["door", "method", "route", "status"], registry=self.registry
        )
        self._request_seconds = Histogram(
            "vmemo_request_seconds",
            "How long they took",
            ["door", "route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._work = Counter(
            "vmemo_work", "Pieces of queued work that have ended", ["kind", "outcome"], registry=self.registry
        )
        self._work_seconds = Histogram(
            "vmemo_work_seconds", "How long queued work took", ["kind"], buckets=_SECONDS, registry=self.registry
        )
        self._troubles = Counter("vmemo_troubles", "Troubles that no answer told", ["what"], registry=self.registry)
        ProcessCollector(registry=self.registry)

    def request(self, seen: Seen) -> None:
        """Count a request."""
        self._requests.labels(seen.door, seen.method, seen.route, str(seen.status)).inc()
        self._request_seconds.labels(seen.door, seen.route).observe(seen.seconds)

    def work(self, job: Job, error: Exception | None, seconds: float) -> None:
        """Count a piece of work."""
        self._work.labels(job.kind, "done" if error is None else "failed").inc()
        self._work_seconds.labels(job.kind).observe(seconds)

    def trouble(self, what: str, error: Exception) -> None:
        """Count a trouble."""
        self._troubles.labels(what).inc()

    def told(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return generate_latest(self.registry)
