"""The Replay page of the console: what is dropped is replayed beside the bank, and nothing of it stays."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from console_client import ConsoleClient, signed_in
from live_server import LiveServer, live_server
from vmemo.sync import portal
from vmemo_replay.cases import read_cases

CHROMIUM = shutil.which("chromium")
FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()
ANA = Path(__file__).with_name("ana.json")
AXE = Path(__file__).parents[2] / "server" / "tests" / "console" / "vendor" / "axe.min.js"
CHATGPT = Path(__file__).parents[2] / "tests" / "fixtures" / "imports" / "chatgpt.json"
VIOLATIONS = "document.addEventListener('securitypolicyviolation', e => console.error('CSP', e.blockedURI))"
DROP = """([name, text]) => {
    const data = new DataTransfer();
    data.items.add(new File([text], name));
    const drop = new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
    document.querySelector('.drop').dispatchEvent(drop);
}"""
BANK = "ana"
OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def served(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that requires keys, with a bank of the sample conversation."""
    path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("served"))
    with live_server(f"sqlite:///{path}", keyless=False) as running:
        portal.run(running.memory.bank(BANK).retain(json.loads(ANA.read_text("utf-8"))))
        yield running


@pytest.fixture(scope="module")
def writer(served: LiveServer) -> Iterator[ConsoleClient]:
    """A person who may write to the bank."""
    with signed_in(served, "write", bank=BANK) as client:
        yield client


def replayed(client: ConsoleClient, page: str, body: bytes = b"", **params: str) -> dict[str, list[dict[str, Any]]]:
    """Replay a file or the bank, and return the events of the stream by name."""
    headers = OCTETS | {"X-CSRF-Token": client.token}
    response = client.http.post(client.path(f"/replay/{page}"), params=params, content=body, headers=headers)
    assert response.status_code == 200, response.text
    found: dict[str, list[dict[str, Any]]] = {}
    for name, data in re.findall(r"event: (\w+)\r\ndata: (.*)\r\n", response.text):
        found.setdefault(name, []).append(json.loads(data))
    return found


def test_a_file_is_replayed_and_nothing_of_it_is_stored(writer: ConsoleClient, served: LiveServer) -> None:
    before = portal.run(served.memory.bank(BANK).status())
    archive = Path(tempfile.mkdtemp()) / "export.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.write(CHATGPT, "conversations.json")
    events = replayed(writer, "upload", archive.read_bytes(), name="../x/export.zip", turns="2")
    assert [event["done"] for event in events["progress"]] == [0, 1, 2]
    report = events["report"][0]["report"]
    assert report["files"] == ["xexport.zip"]
    assert len(report["turns"]) == 2
    assert portal.run(served.memory.bank(BANK).status()).messages == before.messages
    assert not list(Path(tempfile.gettempdir()).glob("vmemo-replay-*"))
    refused = replayed(writer, "upload", b'{"a": 1}', name="b.json")
    assert "tmp" not in str(refused["problem"][0]["text"])


def test_the_bank_itself_is_replayed(writer: ConsoleClient) -> None:
    report = replayed(writer, "bank")["report"][0]["report"]
    questions = [turn for turn in report["turns"] if turn.get("question")]
    assert len(report["turns"]) == 7
    assert any(turn["given"][0].get("hits") for turn in questions)


def test_a_replay_needs_permission_a_token_and_its_turn(writer: ConsoleClient, served: LiveServer) -> None:
    address, body = writer.path("/replay/upload"), ANA.read_bytes()
    assert writer.http.post(address, content=body, headers=OCTETS).status_code == 403
    with signed_in(served, "admin", "other", bank=BANK) as stranger:
        token = {"X-CSRF-Token": stranger.token}
        assert stranger.http.post(address, content=body, headers=OCTETS | token).status_code == 403
        assert stranger.http.get(writer.path("/replay")).status_code == 403
    headers = OCTETS | {"X-CSRF-Token": writer.token}
    said = [{"role": "user", "content": f"Does my friend number {number} live in Rome?"} for number in range(500)]
    with writer.http.stream("POST", address, content=json.dumps(said).encode(), headers=headers) as first:
        parts = first.iter_text()
        assert "reading" in next(parts)
        assert "Another replay" in writer.http.post(address, content=body, headers=headers).text
        assert "Another replay" in str(replayed(writer, "bank")["problem"][0]["text"])
    # It was left, which ends it.
    assert any("report" in replayed(writer, "sample", turns="1") for _ in range(100))


def test_hits_are_judged_and_kept_as_cases_that_run_and_are_downloaded(
    writer: ConsoleClient, served: LiveServer, tmp_path: Path
) -> None:
    question = "Where does Ana live?"
    memory = served.memory.bank(BANK)
    hit = next(hit for hit in portal.run(memory.recall(question)).hits if "Rome" in hit.text)
    part = writer.http.post(
        writer.path(f"/facts/{hit.id}/feedback"),
        data={"question": question, "hit": "wrong", "reason": "She moved."},
        headers={"HX-Request": "true", "X-CSRF-Token": writer.token},
    )
    assert "Correct it" in part.text
    assert [each.reason for each in portal.run(memory.get(hit.id)).feedback] == ["She moved."]
    assert "She moved." in writer.get("/recall", query=question)
    form = writer.get("/cases/new", query=question)
    assert re.search(r'value="not" selected', form)
    offered = re.findall(r'name="key(\d+)" value="([^"]+)"', form)
    number, key = next(each for each in offered if each[1] in hit.fact.messages)
    assert "not run" in writer.submit("/cases", query=question, **{f"key{number}": key, f"hit{number}": "not"}).text
    assert "is hit" in writer.submit("/cases/run").text
    added = writer.submit("/cases/file", yaml="cases:\n- question: Where does Ana live?\n  must_recall: Rome")
    assert "2 cases" in added.text
    assert "1 passed" in writer.submit("/cases/run").text
    refused = writer.submit("/cases/file", yaml="cases: [{question: Where does Ana live}]")
    assert refused.status_code == 422
    assert "cases.yaml: case 1" in refused.text
    (tmp_path / "cases.yaml").write_text(writer.get("/cases/cases.yaml"), encoding="utf-8")
    parsed = read_cases(tmp_path / "cases.yaml")
    assert [each.case.must_recall for each in parsed] == [(), ("Rome",)]
    assert parsed[0].source.bank == BANK
    writer.submit(f"/facts/{hit.id}/feedback", question=question, hit="")
    assert portal.run(memory.get(hit.id)).feedback == ()
    assert "She moved." not in writer.get("/recall", query=question)


def test_cases_of_others_are_closed_and_end_with_what_they_quote(served: LiveServer) -> None:
    with signed_in(served, "read", bank=BANK) as reader:
        assert "<form" not in reader.get("/cases").partition("<main")[2]
        assert reader.submit("/cases/run").status_code == 403
    with signed_in(served, "admin", bank="short") as admin:
        token = {"csrf_token": admin.token}
        admin.http.post("/console/banks", data={**token, "name": "short"})
        portal.run(served.memory.bank("short").retain([{"id": "m1", "content": "I live in Oslo."}]))
        admin.submit("/cases/file", yaml="cases: [{question: Oslo, first: m1}, {question: Bergen, silent: true}]")
        admin.submit("/cases/run")
        assert "I live in Oslo." in admin.get("/cases")
        admin.submit("/forget", message="m1")
        assert "Oslo" not in admin.get("/cases")
        assert "1 case," in admin.get("/cases")
        admin.http.post(admin.path("/forget/bank"), data={**token, "name": "short"})
        admin.http.post("/console/banks", data={**token, "name": "short"})
        assert "No cases yet" in admin.get("/cases")


def test_live_requests_are_shown_to_readers_of_the_bank_and_dropped_when_text_is_deleted(served: LiveServer) -> None:
    key, bank = served.key("admin", "team", name="the agent"), "/v1/banks/team"
    with served.http(key) as agent, signed_in(served, "read", bank="team") as reader:
        said = {
            "messages": [{"id": "m1", "content": "I live in Oslo. My key is sk-proj-abcdefghijklmnop1234567890ABCDEF."}]
        }
        assert agent.post(f"{bank}/messages", json=said).status_code == 200
        agent.post(f"{bank}/recall", json={"query": "Who lives in Oslo?"})
        agent.post("/v1/banks/other/messages", json=said)
        shown = reader.get("/live")
        assert "the agent" in shown
        assert "Who lives in Oslo?" in shown
        assert "1 message, 1 fact" in shown
        assert "sk-proj" not in shown
        last = shown.partition("?after=")[2].partition('"')[0]
        assert reader.http.get(reader.path(f"/live/list?after={last}")).status_code == 204
        agent.post(f"{bank}/context", json={"query": "Plan a trip", "banks": ["team"]})
        assert "Plan a trip" in reader.get("/live/list", after=last)
        with signed_in(served, "admin", "other", bank="team") as stranger:
            assert stranger.http.get(stranger.path("/live")).status_code == 403
        agent.request("POST", f"{bank}/forget", json={"messages": ["m1"]})
        assert "No requests yet" in reader.get("/live")


@pytest.mark.parametrize("store", ["sqlite_url", "postgres_url"])
def test_counts_of_requests_by_key_and_cases_outlast_the_server(store: str, request: pytest.FixtureRequest) -> None:
    database: str = request.getfixturevalue(store)
    with live_server(database, keyless=False) as server:
        for name, recalls in (("planner", 3), ("writer", 1)):
            with server.http(server.key("write", name=name)) as agent:
                agent.post("/v1/banks/team/messages", json={"messages": [{"content": f"I am the {name} in Oslo."}]})
                for _ in range(recalls):
                    agent.post("/v1/banks/team/recall", json={"query": "Who is in Oslo?"})
                assert agent.get("/console/usage").status_code == 303
        with signed_in(server, "write", bank="team") as person:
            person.submit("/cases/file", yaml="cases: [{question: Who is in Oslo, must_recall: the writer}]")
            assert "1 passed" in person.submit("/cases/run").text
    with live_server(database, keyless=False) as server, signed_in(server, "admin") as admin:
        page = admin.http.get("/console/usage").text
        by_key = re.findall(r'<bdi>(\w+)</bdi></th><td class="num" data-label="requests">(\d+)</td>', page)
        # The last one is the person who ran the case.
        assert by_key[:2] == [("planner", "4"), ("writer", "2")]
        tokens = re.findall(r'>recall</span></td>.*?data-label="tokens">(\d+)<', page)
        assert len(tokens) == 3
        assert all(int(each) > 0 for each in tokens)
        with signed_in(server, "admin", "team", bank="team") as member:
            assert member.http.get("/console/usage").status_code == 403
            assert "1 passed" in member.get("/cases")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine to open the console with")
def test_conversations_are_dropped_and_marked_in_a_browser(served: LiveServer) -> None:
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_context(base_url=served.url, accept_downloads=True).new_page()
        page.add_init_script(VIOLATIONS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto("/console/sign-in")
        page.get_by_label("API key").fill(served.key("write"))
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"/console/banks/{BANK}/replay")
        _drop(page, CHATGPT)
        page.get_by_role("button", name="Nothing should be recalled here").click()
        with page.expect_download() as downloaded:
            page.get_by_role("button", name="Download 1 case").click()
        assert "files:" in downloaded.value.path().read_text("utf-8")
        page.get_by_label("Drop a conversation here").set_input_files(ANA)
        page.locator("#list button", has_text="Where do I live?").click()
        expect(page.locator(".hit .text").first).to_contain_text("Rome")
        found = _faults(page, "light", "dark")
        page.get_by_role("button", name="Replay a sample conversation").click()
        expect(page.locator("#list button")).to_have_count(14)
        page.get_by_role("button", name="Replay this bank's messages").click()
        page.locator("#list button", has_text="Where do I live?").click()
        page.locator(".marks .right").first.click()
        page.get_by_role("button", name="Add cases to this bank").click()
        page.get_by_role("button", name="Run all").click()
        expect(page.locator("#cases tbody tr").last).to_contain_text("passed")
        for path in ("/cases", "/cases/new?query=Rome", "/live"):
            page.goto(f"/console/banks/{BANK}{path}")
            found += _faults(page, "dark")
        browser.close()
    assert found == []
    assert complaints == []


def _drop(page: Page, file: Path) -> None:
    page.evaluate(DROP, [file.name, file.read_text("utf-8")])
    page.locator("#list button").last.click()


def _faults(page: Page, *themes: Literal["light", "dark"]) -> list[str]:
    """Return the accessibility faults of the page, and its width on a phone if that is too wide."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[str] = []
    for theme in themes:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        rules = "{resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa']}"
        violations = page.evaluate(f"async () => (await axe.run({rules})).violations")
        found += [f"{page.url} {theme} {each['id']}: {each['nodes'][0]['html'][:200]}" for each in violations]
    page.set_viewport_size({"width": 390, "height": 800})
    width = page.evaluate("document.documentElement.scrollWidth")
    page.set_viewport_size({"width": 1280, "height": 900})
    return found if width == 390 else [*found, f"{page.url} is {width} wide"]
