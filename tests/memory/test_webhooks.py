"""Webhooks: events of commits, delivered by workers, signed and retried."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import socket
import ssl
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from builders import NOON, WordEmbedder
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from databases import column
from vmemo import InvalidInput, Memory, Message, NotFound, Settings
from vmemo.jobs import webhook_delivery
from vmemo.jobs.worker import DELIVERIES_PER_BANK
from vmemo.models import FactId, Link
from vmemo.models.changes import MAX_FACTS, Changes, Deletions, FactClosure, events_of
from vmemo.models.records import BankId, BankRevision
from vmemo.models.results import Job
from vmemo.models.webhooks import MAX_WEBHOOKS, SignedWebhook, is_private
from vmemo.sync import portal


@dataclass
class Receiver:
    """An HTTP server on loopback that keeps what it receives."""

    url: str = ""
    statuses: list[int] = field(default_factory=list[int])
    """The statuses of the next responses; 204 afterwards."""
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """The bodies received, as JSON."""
        return [json.loads(body) for _, body in self.received]

    @property
    def events(self) -> list[str]:
        """The events received."""
        return [payload["event"] for payload in self.payloads]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Generator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append((headers, body))
            status = receiver.statuses.pop(0) if receiver.statuses else 204
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{receiver.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    scheme = "http" if tls is None else "https"
    receiver.url = f"{scheme}://127.0.0.1:{server.server_port}/hook?token=t"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def memory_at(url: str, retry_after: float = 0.0) -> Memory:
    """Return a memory whose webhooks may reach loopback addresses; failed jobs are due again after some seconds."""
    chosen = Settings(webhook_private=True, retry_initial_seconds=retry_after)
    return Memory(url, embedder=WordEmbedder(), settings=chosen)


def said(content: str, day: int = 0) -> Message:
    return Message(content=content, speaker="Ana", timestamp=NOON + timedelta(days=day))


def certificate_for(name: str, folder: Path) -> Path:
    """Create a certificate that signs itself, and return its file; `key.pem` beside it is its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, *plain))
    (folder / "certificate.pem").write_bytes(made.public_bytes(pem))
    return folder / "certificate.pem"


def verify(webhook: SignedWebhook, headers: dict[str, str], body: bytes) -> None:
    """Verify a delivery as a receiver does, by the rules of the specification."""
    key = base64.b64decode(webhook.secret.removeprefix("whsec_"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    signature = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{signature}"


def test_retained_revised_and_forgotten_facts_are_delivered_and_signed(url: str, receiver: Receiver) -> None:
    with memory_at(url) as memory:
        webhook = memory.add_webhook_sync(receiver.url)
        memory.retain_sync(said("I live in Rome."))
        assert not receiver.received, "a retain waits for no receiver"
        assert [job.kind for job in memory.jobs_sync()] == ["webhook"]
        memory.work_sync(once=True)
        [old] = memory.facts_sync()
        new = memory.update_sync(old.id, "Ana lives in Milan.")
        memory.work_sync(once=True)
        memory.delete_sync(new.id)
        memory.work_sync(once=True)
        assert memory.jobs_sync() == []
    retained, *edited, forgotten = sorted(receiver.payloads, key=lambda each: each["time"])
    assert (retained["event"], retained["bank"]) == ("retained", "default")
    assert retained["facts"] == [{"id": old.id, "text": old.text, "network": "world"}]
    assert sorted(each["event"] for each in edited) == ["retained", "revised"]
    [revised] = [each for each in edited if each["event"] == "revised"]
    assert revised["facts"] == [{"id": old.id, "text": old.text, "network": "world", "superseded_by": new.id}]
    assert forgotten["event"] == "forgotten"
    assert sorted(fact["id"] for fact in forgotten["facts"]) == sorted([old.id, new.id])
    assert all(set(fact) == {"id"} for fact in forgotten["facts"])
    for headers, body in receiver.received:
        verify(webhook, headers, body)
    assert len({headers["webhook-id"] for headers, _ in receiver.received}) == len(receiver.received)


def test_a_failed_delivery_is_listed_with_its_error_and_redirects_are_not_followed(
    url: str, receiver: Receiver
) -> None:
    receiver.statuses = [302]
    with memory_at(url, retry_after=3600.0) as memory:
        memory.add_webhook_sync(receiver.url, ["retained"])
        memory.retain_sync(said("I live in Rome."))
        assert memory.work_sync(once=True).failed == 1
        [job] = memory.jobs_sync()
        assert "answered 302" in (job.error or "")
        assert "token" not in (job.error or "")
        assert memory.status_sync().backlog[0].failed == 1
    assert len(receiver.received) == 1


def test_a_delivery_is_tried_again_under_the_same_id_until_it_is_accepted(url: str, receiver: Receiver) -> None:
    receiver.statuses = [500, 429]
    with memory_at(url) as memory:
        memory.add_webhook_sync(receiver.url, ["retained"])
        memory.retain_sync(said("I live in Rome."))
        memory.work_sync(once=True)
        assert memory.jobs_sync() == []
    assert receiver.events == ["retained"] * 3
    assert len({headers["webhook-id"] for headers, _ in receiver.received}) == 1


def test_a_delivery_that_fails_for_days_is_dropped(
    sqlite_url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhook_delivery, "GIVE_UP_AFTER", timedelta(0))
    receiver.statuses = [500]
    with memory_at(sqlite_url) as memory:
        memory.add_webhook_sync(receiver.url)
        memory.retain_sync(said("I live in Rome."))
        memory.work_sync(once=True)
        assert memory.jobs_sync() == []
    assert "was dropped" in caplog.text


def test_a_delivery_that_fails_in_any_way_is_dropped_after_days(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Earlier releases stored addresses that no resolver can encode.
    stored = SignedWebhook(id="hook", url="https://app..example/", events=("retained",), secret="whsec_AAAA")
    with memory_at(sqlite_url, retry_after=3600.0) as memory:
        memory.retain_sync(said("I live in Rome."))
        portal.run(memory.store.commit(Changes(bank=BankId("default"), webhooks=[stored])))
        memory.retain_sync(said("Tux is my cat.", 1))
        assert memory.work_sync(once=True).failed == 1
        [job] = memory.jobs_sync()
        assert "invalid host" in (job.error or "")
        monkeypatch.setattr(webhook_delivery, "GIVE_UP_AFTER", timedelta(0))
        memory.retain_sync(said("Tux is a grey cat.", 2))
        memory.work_sync(once=True)
        assert [each.id for each in memory.jobs_sync()] == [job.id], "it waits for its next attempt"


def test_receivers_that_never_answer_delay_neither_other_jobs_nor_the_deliveries_of_other_banks(
    url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "TIMEOUT", 60.0)
    done: list[tuple[str, str]] = []
    chosen = Settings(webhook_private=True, retry_initial_seconds=3600.0)

    async def run(silent: socket.socket) -> None:
        stop = asyncio.Event()

        def ended(job: Job, error: Exception | None, seconds: float) -> None:
            done.append((job.bank, job.kind))
            if len(done) == len(expected):
                stop.set()
                silent.close()  # which ends the deliveries that wait

        async with Memory(url, embedder=WordEmbedder(), settings=chosen) as memory:
            busy, other = memory.bank("busy"), memory.bank("other")
            for _ in range(MAX_WEBHOOKS):
                await busy.add_webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/")
            await other.add_webhook(receiver.url)
            await busy.retain(said("I live in Rome."))
            for bank in (busy, other):
                await bank.add_message(said("Tux is my cat."))
            await memory.work(stop, on_done=ended)

    expected = [("busy", "process"), ("other", "process"), ("other", "webhook")]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        portal.run(run(silent))
    assert sorted(done[: len(expected)]) == expected
    assert len(done) == len(expected) + DELIVERIES_PER_BANK
    assert receiver.events == ["retained"]


def test_a_fact_that_was_forgotten_meanwhile_never_leaves(url: str, receiver: Receiver) -> None:
    with memory_at(url) as memory:
        memory.add_webhook_sync(receiver.url)
        memory.retain_sync(said("I live in Rome."))
        [fact] = memory.facts_sync()
        memory.delete_sync(fact.id)
        memory.work_sync(once=True)
        assert memory.jobs_sync() == []
    assert receiver.events == ["forgotten"]
    assert b"Rome" not in receiver.received[0][1]


def test_a_write_that_is_not_committed_has_no_event(url: str) -> None:
    with memory_at(url) as memory:
        memory.add_webhook_sync("https://app.example/hook")
        store = memory.store

        async def commit(revision: BankRevision) -> bool:
            gone = Deletions(facts=[FactId("a fact")])
            return await store.commit(Changes(bank=BankId("default"), revision=revision, deleted=gone))

        assert not portal.run(commit(BankRevision("another", 0)))
        assert memory.jobs_sync() == []
        assert portal.run(commit(portal.run(store.revision(BankId("default")))))
        assert [job.kind for job in memory.jobs_sync()] == ["webhook"]


def test_a_receiver_that_is_gone_disables_its_webhook(url: str, receiver: Receiver) -> None:
    receiver.statuses = [410]
    with memory_at(url) as memory:
        memory.add_webhook_sync(receiver.url)
        memory.retain_sync(said("I live in Rome."))
        memory.work_sync(once=True)
        [webhook] = memory.webhooks_sync()
        assert webhook.disabled_at is not None
        memory.retain_sync(said("Tux is my cat.", 1))
        assert memory.jobs_sync() == []


def test_a_deleted_webhook_takes_its_queued_deliveries_with_it(url: str, receiver: Receiver) -> None:
    with memory_at(url) as memory:
        gone, kept = (memory.add_webhook_sync(receiver.url) for _ in range(2))
        memory.retain_sync(said("I live in Rome."))
        assert memory.delete_webhook_sync(gone.id) == gone.public()
        assert memory.webhooks_sync() == [kept.public()]
        assert [job.detail["webhook"] for job in memory.jobs_sync()] == [kept.id]
        with pytest.raises(NotFound, match="There is no webhook"):
            memory.delete_webhook_sync(gone.id)
        memory.forget_sync(bank=True)
        assert memory.webhooks_sync() == []
        assert column(url, "webhooks", "id") == []


def test_a_bank_keeps_its_webhooks_and_deliveries_when_it_is_reprocessed(url: str, receiver: Receiver) -> None:
    with memory_at(url) as memory:
        webhook = memory.add_webhook_sync(receiver.url)
        memory.retain_sync(said("I live in Rome."))
        queued = [job.id for job in memory.jobs_sync()]
        memory.reprocess_sync()
        assert memory.webhooks_sync() == [webhook.public()]
        assert [job.id for job in memory.jobs_sync()] == queued, "the new derivation is no event"
        memory.retain_sync(said("Tux is my cat.", 1))
        memory.work_sync(once=True)
        assert memory.jobs_sync() == []
    assert set(receiver.events) == {"retained"}
    assert "Tux" in receiver.received[-1][1].decode()


def test_webhooks_are_not_exported(sqlite_url: str, tmp_path: Path) -> None:
    with memory_at(sqlite_url) as memory:
        webhook = memory.add_webhook_sync("https://app.example/hook")
        memory.retain_sync(said("I live in Rome."))
        memory.export_sync(tmp_path / "bank.jsonl")
        exported = (tmp_path / "bank.jsonl").read_text(encoding="utf-8")
        assert webhook.secret not in exported
        assert webhook.url not in exported
        copy = memory.bank("copy")
        copy.import_bank_sync(tmp_path / "bank.jsonl")
        assert copy.webhooks_sync() == []
        assert copy.jobs_sync() == []
    assert webhook.secret not in repr(webhook)


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://app.example/hook", "must start with https://"),
        ("ftp://app.example/hook", "must be an https:// URL"),
        ("https://", "must be an https:// URL"),
        ("https://user:pass@app.example/", "no user name"),
        ("https://app.example/a b", "not allowed in a URL"),
        ("https://app.example:99999/", "invalid host or port"),
        ("https://app..example/", "invalid host"),
        ("https://.app.example/", "invalid host"),
        ("https://app.example../", "invalid host"),
        (f"https://{'a' * 64}.example/", "invalid host"),
        (f"https://{'a.' * 130}example/", "invalid host"),
        ("https://app%2eexample/", "invalid host"),
        ("https://*.example/", "invalid host"),
        ("https://127.0.0.1/hook", "private host '127.0.0.1'"),
        ("http://localhost:8080/hook", "private host 'localhost'"),
        ("https://[::1]/hook", "private host '::1'"),
        ("https://169.254.169.254/latest", "private host"),
        ("https://[::ffff:10.0.0.1]/hook", "private host"),
        ("https://[64:ff9b::169.254.169.254]/latest", "private host"),
        ("https://192.0.0.192/latest", "private host"),
    ],
)
def test_an_address_that_must_not_be_called_is_refused(address: str, problem: str) -> None:
    with Memory(":memory:", embedder=WordEmbedder()) as memory:
        with pytest.raises(InvalidInput, match=re.escape(problem)):
            memory.add_webhook_sync(address)
        assert memory.webhooks_sync() == []


def test_a_name_with_a_private_address_is_not_called(sqlite_url: str, receiver: Receiver) -> None:
    with memory_at(sqlite_url) as memory:
        memory.add_webhook_sync(receiver.url.replace("127.0.0.1", "localhost"))
    delayed = Settings(retry_initial_seconds=3600.0)
    with Memory(sqlite_url, embedder=WordEmbedder(), settings=delayed) as memory:
        memory.retain_sync(said("I live in Rome."))
        memory.work_sync(once=True)
        [job] = memory.jobs_sync()
        assert "private address" in (job.error or "")
    assert not receiver.received
    with memory_at(sqlite_url) as memory:
        memory.retain_sync(said("Tux is my cat.", 1))
        memory.work_sync(once=True)
    assert receiver.events == ["retained"]
    assert receiver.received[0][0]["host"].startswith("localhost:")


def test_a_bank_has_a_limited_number_of_webhooks_and_known_events() -> None:
    with Memory(":memory:", embedder=WordEmbedder()) as memory:
        for _ in range(MAX_WEBHOOKS):
            memory.add_webhook_sync("https://app.example/hook")
        with pytest.raises(InvalidInput, match="at most 20 webhooks"):
            memory.add_webhook_sync("https://app.example/hook")
        with pytest.raises(InvalidInput, match="events"):
            memory.add_webhook_sync("https://app.example/hook", ["recalled"])  # pyright: ignore[reportArgumentType]


def test_the_certificate_of_a_receiver_is_verified_for_the_name_in_its_url(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = certificate_for("localhost", tmp_path)
    trusted = ssl.create_default_context(cafile=str(authority))

    def certificates(*, trust_env: bool) -> ssl.SSLContext:
        return trusted

    monkeypatch.setattr(webhook_delivery, "default_certificates", certificates)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority, tmp_path / "key.pem")
    with receiving(context) as receiver, memory_at(sqlite_url, retry_after=3600.0) as memory:
        wrong = memory.add_webhook_sync(receiver.url)
        memory.add_webhook_sync(receiver.url.replace("127.0.0.1", "localhost"))
        memory.retain_sync(said("I live in Rome."))
        memory.work_sync(once=True)
        [job] = memory.jobs_sync()
        assert job.detail["webhook"] == wrong.id
        assert "CERTIFICATE_VERIFY_FAILED" in (job.error or "")
        assert receiver.events == ["retained"]


def test_events_of_a_commit_name_the_facts_that_replaced_others_in_parts_of_limited_size() -> None:
    old, new, gone = FactId("old"), FactId("new"), FactId("gone")
    closed = [FactClosure(fact=id, expired_at=NOON) for id in (old, gone, FactId("faded"))]
    many = [gone, *(FactId(f"{number}") for number in range(MAX_FACTS))]
    found = events_of(
        Changes(
            bank=BankId("a"),
            closures=closed,
            links=[Link(source=new, target=old, kind="replaces", weight=1.0)],
            reopened=[FactId("again")],
            deleted=Deletions(facts=many),
        )
    )
    assert [(each.event, len(each.facts)) for each in found] == [
        *(("retained", 1), ("revised", 2)),
        *(("forgotten", MAX_FACTS), ("forgotten", 1)),
    ]
    assert found[1].facts == {old: new, "faded": None}


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("8.8.8.8", False),
        ("2606:4700::1111", False),
        ("10.1.2.3", True),
        ("100.64.0.1", True),
        ("0.0.0.0", True),
        ("224.0.0.1", True),
        ("fe80::1", True),
        ("fd00::1", True),
        ("::ffff:192.168.0.1", True),
        ("2002:0a00:0001::1", True),
        ("2002:0808:0808::1", True),
        ("::ffff:8.8.8.8", False),
        ("192.0.0.9", True),
        ("192.0.0.192", True),
        ("192.88.99.1", True),
        ("192.0.2.1", True),
        ("198.18.0.1", True),
        ("255.255.255.255", True),
        ("64:ff9b::7f00:1", True),
        ("64:ff9b::808:808", True),
        ("64:ff9b:1::a9fe:a9fe", True),
        ("::", True),
        ("::1", True),
        ("::127.0.0.1", True),
        ("::8.8.8.8", True),
        ("::ffff:0:127.0.0.1", True),
        ("100::1", True),
        ("2001::1", True),
        ("2001:20::1", True),
        ("2001:db8::1", True),
        ("3fff::1", True),
        ("5f00::1", True),
        ("fec0::1", True),
        ("ff02::1", True),
        ("ff0e::1", True),
        ("fe80::1%eth0", True),
    ],
)
def test_addresses_outside_the_public_internet_are_private(address: str, private: bool) -> None:
    assert is_private(ip_address(address)) is private
