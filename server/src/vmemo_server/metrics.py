"""Prometheus metrics, an optional extra; `docs/operations.md` lists them.

With several processes `PROMETHEUS_MULTIPROC_DIR` names a folder, in which the client library keeps the counts of each.
"""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector

from vmemo.models.results import Job
from vmemo_server.observability import RequestLog

MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that must be set before the client library is imported."""
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Metrics:
    """Observer that counts, in a registry of its own. Labels hold routes and job kinds, never a bank or key."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "vmemo_requests", "Finished requests", ["interface", "method", "route", "status"], registry=self.registry
        )
        self._request_seconds = Histogram(
            "vmemo_request_seconds",
            "Duration of requests",
            ["interface", "route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._jobs = Counter("vmemo_jobs", "Finished jobs", ["kind", "outcome"], registry=self.registry)
        self._job_seconds = Histogram(
            "vmemo_job_seconds", "Duration of jobs", ["kind"], buckets=_SECONDS, registry=self.registry
        )
        self._background_errors = Counter(
            "vmemo_background_errors", "Errors that no response reports", ["source"], registry=self.registry
        )
        self._several = MULTIPROCESS_FOLDER in os.environ
        if not self._several:
            ProcessCollector(registry=self.registry)

    def request(self, log: RequestLog) -> None:
        self._requests.labels(log.interface, log.method, log.route, str(log.status)).inc()
        self._request_seconds.labels(log.interface, log.route).observe(log.seconds)

    def job(self, job: Job, error: Exception | None, seconds: float) -> None:
        self._jobs.labels(job.kind, "done" if error is None else "failed").inc()
        self._job_seconds.labels(job.kind).observe(seconds)

    def background_error(self, source: str, error: Exception) -> None:
        self._background_errors.labels(source).inc()

    def exposition(self) -> bytes:
        """Return all metrics in the format that Prometheus scrapes."""
        if not self._several:
            return generate_latest(self.registry)
        # A registry of its own, which reads the counts of all processes, also of those that have ended.
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
        return generate_latest(registry)
