"""Sign-in, sessions, forms and headers of the console."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path

import httpx2
import pytest

from console_client import form_token
from live_server import LiveServer, live_server
from vmemo.sync import portal
from vmemo_server.app import ServerOptions
from vmemo_server.console.session import COOKIE


@pytest.fixture
def server(sqlite_url: str) -> Iterator[LiveServer]:
    """Run a server that requires a key."""
    with live_server(sqlite_url, keyless=False, options=ServerOptions(hosts=("*",))) as running:
        portal.run(running.memory.bank("ana").open())
        yield running


def sign_in(client: httpx2.Client, key: str) -> httpx2.Response:
    """Sign in with a key."""
    return client.post("/console/sign-in", data={"key": key, "csrf_token": form_token(client)})


def test_browser_holds_a_token_and_never_the_key(server: LiveServer) -> None:
    key = server.key("read")
    with server.http() as client:
        assert client.get("/console").headers["location"] == "/console/sign-in?next=%2Fconsole"
        signed = sign_in(client, key)
        assert signed.status_code == 303
        cookie = signed.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/console"))
        assert key not in cookie
        page = client.get("/console")
        assert page.status_code == 200
        assert key not in page.text


def test_sign_in_returns_to_the_page_of_this_console_only(server: LiveServer) -> None:
    with server.http() as client:
        for given, expected in [
            ("/console/banks/ana", "/console/banks/ana"),
            ("/console/banks/a%2Fb/facts?q=50%25+of+tea&state=current", None),
            ("/console?q=ana", None),
            ("/console/banks/ana/recall?query=//evil.example", None),
            ("/console/banks/ana/recall?query=" + "x" * 3_000, "/console"),
            ("/consolex", "/console"),
            ("/console?q=ana\r\nSet-Cookie: a=b", "/console"),
            ("https://evil.example/console/", "/console"),
            ("//evil.example/console/", "/console"),
            ("/console/\\evil.example", "/console"),
        ]:
            data = {"key": server.key("read"), "csrf_token": form_token(client), "next": given}
            assert client.post("/console/sign-in", data=data).headers["location"] == (expected or given)


def test_sign_in_comes_back_with_the_query(server: LiveServer) -> None:
    address = "/console/banks/ana/recall?query=Where+does+Anna+live%3F&at_time=2024-09-01"
    with server.http() as client:
        form = client.get(client.get(address).headers["location"]).text
        back = unescape(form.split('name="next" value="')[1].split('"')[0])
        assert back == address
        data = {"key": server.key("read"), "csrf_token": form_token(client), "next": back}
        assert client.post("/console/sign-in", data=data).headers["location"] == address
    with server.http() as client:
        posted = client.post("/console/banks/ana/process?query=x", data={})
        assert posted.headers["location"] == "/console/sign-in?next=%2Fconsole"


def test_wrong_key_and_large_forms_are_refused(server: LiveServer) -> None:
    with server.http() as client:
        refused = sign_in(client, "vmemo_wrong")
        assert refused.status_code == 401
        assert "not an active API key" in refused.text
        large = client.post("/console/sign-in", data={"key": "x" * 9000})
        assert large.status_code == 413


def test_sign_out_ends_the_session_for_a_copied_cookie_on_every_server(server: LiveServer, sqlite_url: str) -> None:
    other_process = live_server(sqlite_url, keyless=False, options=ServerOptions(hosts=("*",)))
    with server.http() as client, other_process as second, second.http() as thief:
        sign_in(client, server.key("read"))
        signed_in = client.cookies[COOKIE]
        thief.cookies.set(COOKIE, signed_in, path="/console")
        assert thief.get("/console").status_code == 200
        client.post("/console/sign-out", data={"csrf_token": form_token(client)})
        assert client.cookies[COOKIE] != signed_in
        assert client.get("/console").status_code == 303
        assert thief.get("/console").status_code == 303


def test_a_revoked_key_ends_its_sessions(server: LiveServer) -> None:
    id, key = server.key_with_id("read")
    with server.http() as client:
        sign_in(client, key)
        assert client.get("/console").status_code == 200
        portal.run(server.auth.revoke(id))
        assert client.get("/console").status_code == 303
        shown = {"HX-Request": "true", "HX-Current-URL": f"{server.url}/console/banks/ana/facts?state=closed"}
        fragment = client.get("/console/banks/ana/queue", headers=shown)
        back = "/console/sign-in?next=%2Fconsole%2Fbanks%2Fana%2Ffacts%3Fstate%3Dclosed"
        assert (fragment.status_code, fragment.headers["hx-redirect"]) == (204, back)


def test_sessions_expire_and_survive_a_restart_of_the_server(server: LiveServer, sqlite_url: str) -> None:
    id, _ = server.key_with_id("read")
    over = portal.run(server.auth.begin_session(id, timedelta(0)))
    token = portal.run(server.auth.begin_session(id))
    with live_server(sqlite_url, keyless=False, options=ServerOptions(hosts=("*",))) as restarted:
        found = [portal.run(restarted.auth.find_session(each)) for each in (token, over, token[:-1], "")]
    assert [key and key.id for key in found] == [id, None, None, None]


def test_form_without_its_token_or_of_another_origin_changes_nothing(server: LiveServer) -> None:
    with server.http() as client:
        sign_in(client, server.key("admin"))
        path, token = "/console/banks/ana/maintain", form_token(client)
        assert client.post(path, data={}).status_code == 403
        assert client.post(path, data={"csrf_token": "0" * 64}).status_code == 403
        assert client.post(path, json={"csrf_token": token}).status_code == 415
        other = client.post(path, data={"csrf_token": token}, headers={"Origin": "http://evil.example"})
        assert other.status_code == 403
        assert "Nothing was changed" in other.text
        proxied = {"Origin": "https://memory.example", "X-Forwarded-Host": "memory.example"}
        assert client.post(path, data={}, headers=proxied).status_code == 403
        assert client.post(path, data={"csrf_token": token}, headers=proxied).status_code == 303
        assert client.post(path, data={}, headers={"X-CSRF-Token": token}).status_code == 303
    assert [entry.interface for entry in portal.run(server.auth.audit_entries())] == ["console", "console"]


def test_cookie_is_secure_behind_tls(server: LiveServer) -> None:
    with server.http() as client:
        assert "Secure" not in client.get("/console/sign-in").headers["set-cookie"]
        client.cookies.clear()
        behind = client.get("/console/sign-in", headers={"X-Forwarded-Proto": "https"})
        assert "Secure" in behind.headers["set-cookie"]


def test_policy_allows_nothing_inline_and_no_other_host(server: LiveServer) -> None:
    with server.http() as client:
        page = client.get("/console/sign-in")
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        missing = client.get("/console/static/1/..%2F..%2Fsession.py")
        assert missing.status_code == 404


def test_templates_have_no_inline_code() -> None:
    folder = Path(__file__).parents[3] / "server/src/vmemo_server/console/templates"
    pages = sorted(folder.glob("*.html"))
    assert pages
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert " style=" not in text, page.name
        assert " onclick=" not in text, page.name
        assert "hx-on" not in text, page.name
        assert "|safe" not in text, page.name
        assert "//" not in text.replace("http://", "").replace("https://", ""), page.name
        assert "http" not in text.replace("htmx", "").replace("http-", ""), page.name


def test_local_server_without_keys_needs_no_sign_in(sqlite_url: str) -> None:
    with live_server(sqlite_url) as server, server.http() as client:
        page = client.get("/console")
        assert page.status_code == 200
        created = client.post("/console/banks", data={"name": "a/b %2F", "csrf_token": form_token(client)})
        assert created.headers["location"] == "/console/banks/a%2Fb%20%252F?done=created"
        assert "The bank exists now." in client.get(created.headers["location"]).text
