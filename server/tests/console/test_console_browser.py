"""The console in a real browser: pages, actions, accessibility, and nothing from another host.

Errors of scripts, violations of the content security policy and requests to other hosts fail every test.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from console_client import BANK
from console_samples import BANK as HOSTILE, fill_hostile
from live_server import LiveServer
from vmemo import Memory
from vmemo.models.records import Permission
from vmemo.sync import portal

CHROMIUM = shutil.which("chromium")
FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()
AXE = Path(__file__).parent / "vendor" / "axe.min.js"
VIOLATIONS = "document.addEventListener('securitypolicyviolation', e => console.error('CSP', e.blockedURI))"
PHONE, LAPTOP = 390, 1280
SLOW = 30_000
"""Milliseconds for Swagger UI, which takes seconds to start on a busy machine."""
PAGES = ("", "/facts", "/entities", "/graph", "/opinions", "/observations", "/messages", "/episodes", "/recall")
MORE_PAGES = ("/recall?query=Where+does+Maya+work", "/chat", "/profile", "/forget", "/forget?entity=Ines")
SERVER_PAGES = ("", "/keys", "/audit", "/reports", "/sign-in", "/nothing")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine to open the console with")

OpenAs = Callable[[Permission], Page]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the module."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def open_as(chromium: Browser, sample: LiveServer) -> Iterator[OpenAs]:
    """Signs in with a key of a permission, once for each; complaints of any page fail at the end."""
    complaints: list[str] = []
    contexts: dict[Permission, tuple[BrowserContext, Page]] = {}
    host = urlsplit(sample.url).netloc

    def open_as(permission: Permission) -> Page:
        if permission not in contexts:
            context = chromium.new_context(base_url=sample.url, reduced_motion="reduce")
            context.add_init_script(VIOLATIONS)
            page = context.new_page()
            page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
            page.on("dialog", lambda dialog: complaints.append(f"{page.url}: {dialog.message}"))
            page.on("console", lambda message: note(page, message.type, message.text))
            page.on("request", lambda request: stays(request.url))
            page.goto("/console/sign-in")
            page.get_by_label("API key").fill(sample.key(permission))
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="Banks")).to_be_visible()
            contexts[permission] = context, page
        page = contexts[permission][1]
        page.set_viewport_size({"width": LAPTOP, "height": 900})
        return page

    def note(page: Page, kind: str, text: str) -> None:
        # A page that does not exist is asked for on purpose.
        if kind in ("error", "warning") and "status of 404" not in text:
            complaints.append(f"{page.url}: {text}")

    def stays(url: str) -> None:
        if urlsplit(url).scheme != "data" and urlsplit(url).netloc != host:
            complaints.append(f"another host: {url}")

    yield open_as
    assert complaints == []


@pytest.fixture
def bank(memory: Memory) -> str:
    """The address of the sample bank."""
    return f"/console/banks/{BANK}"


def faults(page: Page) -> list[str]:
    """Return the serious accessibility faults of the open page."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate(
        "() => axe.run({resultTypes: ['violations'], iframes: false, runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa']})"
    )
    return [
        f"{page.url} {each['id']}: {node['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


def wide_elements(page: Page) -> list[str]:
    """Return the elements that make the open page wider than the window."""
    return page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
            .filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".table-wrap, nav"))
            .map(e => e.outerHTML.slice(0, 120)).slice(0, 5)"""
    )


def broken_words(page: Page) -> list[str]:
    """Return the words in tables of the open page that are broken across lines."""
    return page.evaluate(
        """() => [...document.querySelectorAll("table.list th, table.list td")].flatMap(cell => {
            const found = [], range = document.createRange();
            const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
                range.setStart(texts.currentNode, word.index);
                range.setEnd(texts.currentNode, word.index + word[0].length);
                if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) found.push(word[0]);
            }
            return found;
        })"""
    )


def record_pages(memory: Memory) -> list[str]:
    """Return the pages of one fact, opinion, entity, message and episode."""
    fact = next(fact for fact in portal.run(memory.facts(limit=100)) if fact.messages and not fact.expired_at)
    opinion, entity = portal.run(memory.opinions())[0], portal.run(memory.entities(limit=1))[0]
    return [
        f"/facts/{fact.id}",
        f"/facts/{fact.id}/delete",
        f"/opinions/{opinion.id}",
        f"/entities/{entity.id}",
        f"/messages/{fact.messages[0]}",
        f"/episodes/{fact.episodes[0]}",
    ]


def phone_faults(page: Page) -> list[str]:
    """Return what is too wide for a phone on the open page of a bank, and the tab if it is out of sight."""
    tab = page.locator(".side [aria-current]").bounding_box()
    shown = tab is not None and 0 <= tab["x"] <= PHONE - tab["width"]
    return [f"{page.url} on a phone: {each}" for each in [*wide_elements(page), *([] if shown else [f"tab at {tab}"])]]


def test_every_page_is_accessible_in_light_and_dark_and_fits_a_phone(
    open_as: OpenAs, bank: str, memory: Memory
) -> None:
    page = open_as("admin")
    paths = [f"{bank}{path}" for path in (*PAGES, *MORE_PAGES, *record_pages(memory))]
    found: list[str] = []
    # These have every colour.
    dark = [bank, f"{bank}{MORE_PAGES[0]}", f"{bank}/opinions", paths[-len(record_pages(memory))]]
    for path in [*(f"/console{path}" for path in SERVER_PAGES), *paths]:
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": PHONE, "height": 800})
        page.goto(path)
        if path.endswith("/graph"):
            page.locator("#graph[data-ready]").wait_for()
        if "forget?" in path:
            page.get_by_role("button", name="Forget for good").wait_for()
        found += phone_faults(page) if path in paths else []
        page.set_viewport_size({"width": LAPTOP, "height": 900})
        found += [*faults(page), *(f"{path} breaks {word}" for word in broken_words(page))]
        if path in dark:
            page.emulate_media(color_scheme="dark")
            found += faults(page)
    page.emulate_media(color_scheme="light")
    assert found == []


def test_reader_sees_no_control_that_writes(open_as: OpenAs, bank: str, memory: Memory) -> None:
    page = open_as("read")
    for path in (*PAGES, *record_pages(memory)[::2]):
        if not path.endswith("/delete"):
            page.goto(f"{bank}{path}")
            expect(page.locator("main form[method=post]:not(:has(:disabled))")).to_have_count(0)
            expect(page.get_by_role("link", name="Forget")).to_have_count(0)
    page.goto(f"{bank}/profile")
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    page.goto(f"{bank}/chat")
    page.get_by_label("Question").fill("What food does Maya avoid?")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".cite").first).to_be_visible()


def test_facts_are_filtered_in_place(open_as: OpenAs, bank: str) -> None:
    page = open_as("read")
    page.goto(f"{bank}/facts")
    page.get_by_label("State").select_option("closed")
    expect(page.locator("#facts tbody tr:not(.is-closed)")).to_have_count(0)
    expect(page).to_have_url(re.compile("state=closed"))
    page.get_by_label("State").select_option("")
    page.get_by_label("About entity").fill("Biscuit")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#facts tbody tr").first).to_contain_text("Biscuit")
    page.goto(f"{bank}/entities")
    page.get_by_label("Find by name or alias").fill("ine")
    expect(page.locator("#rows tr")).to_have_count(1)


def test_recall_lab_explains_a_question_in_place(open_as: OpenAs, bank: str, memory: Memory) -> None:
    page = open_as("read")
    page.goto(f"{bank}/recall")
    page.get_by_label("Question").fill("Where does Maya work?")
    page.get_by_role("button", name="Recall").click()
    expect(page.locator("#hits tbody tr").first).to_be_visible()
    shown = [row.get_attribute("data-fact") for row in page.locator("#hits tbody tr").all()]
    recalled = portal.run(memory.recall("Where does Maya work?", max_tokens=1024, explain=True))
    assert shown == [hit.id for hit in recalled.hits]
    expect(page.locator(".channel")).not_to_have_count(0)
    expect(page.locator("pre.prompt")).to_contain_text("Facts from memory")


def test_citation_opens_in_the_chat(open_as: OpenAs, bank: str) -> None:
    page = open_as("admin")
    page.goto(f"{bank}/chat")
    page.get_by_label("Question").fill("What food does Maya avoid?")
    page.get_by_role("button", name="Ask").click()
    page.locator(".cite").first.click()
    expect(page.locator(".opened .fact-card")).to_be_visible()
    assert faults(page) == []


def tap(page: Page, node: str) -> None:
    """Select the first node of the graph that a selector finds."""
    # Without a result: the graph would be sent to this process.
    page.evaluate("node => { document.getElementById('graph').graph.nodes(node)[0].emit('tap'); }", node)


def test_graph_filters_links_and_focuses_an_entity(open_as: OpenAs, bank: str) -> None:
    page = open_as("read")
    page.goto(f"{bank}/graph")
    page.locator("#graph[data-ready]").wait_for()
    visible = "() => document.getElementById('graph').graph.edges(':visible').length"
    before = page.evaluate(visible)
    page.get_by_label("mentions").uncheck()
    page.wait_for_function(f"before => ({visible})() < before", arg=before)
    nodes = "() => document.getElementById('graph').graph.nodes(':visible').length"
    every = page.evaluate(nodes)
    page.get_by_label("Known at").fill("0")
    page.wait_for_function(f"every => 0 < ({nodes})() && ({nodes})() < every", arg=every)
    expect(page.locator("#moment-shown")).not_to_have_text("now")
    page.set_viewport_size({"width": PHONE, "height": 800})
    page.reload()
    page.locator("#graph[data-ready]").wait_for()
    shown = page.evaluate(
        """() => {
            const graph = document.getElementById("graph").graph, named = graph.nodes("[type = 'entity']");
            const size = node => parseFloat(node.style("font-size")) * graph.zoom();
            return named.filter(node => node.style("label")).map(node => [node.style("label"), size(node)]);
        }"""
    )
    assert "Maya" in [label for label, _ in shown]
    assert all(size == pytest.approx(12) for _, size in shown)
    tap(page, "[label = 'Maya']")
    page.get_by_role("link", name="Focus").click()
    expect(page.get_by_role("heading", name="Graph around Maya")).to_be_visible()
    page.locator("#graph[data-ready]").wait_for()
    tap(page, "[type = 'fact']")
    expect(page.locator("#node .fact-card")).to_be_visible()


def test_api_reference_shows_every_group_of_routes(open_as: OpenAs) -> None:
    page = open_as("read")
    page.goto("/docs")
    for tag in ("banks", "messages", "query", "facts", "inspect", "webhooks", "server"):
        expect(page.locator(f"#operations-tag-{tag}")).to_be_visible(timeout=SLOW)
    page.locator("#operations-query-query_recall").click()
    expect(page.get_by_text("Where does Ana live?").first).to_be_visible(timeout=SLOW)


def test_writer_changes_memory(open_as: OpenAs, bank: str, memory: Memory) -> None:
    page = open_as("write")
    page.goto(f"{bank}/facts?entity=Ines&state=current")
    page.locator(".fact-link").filter(has_text="sourdough").click()
    page.get_by_role("button", name="Pin").click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    page.get_by_label("New text").fill("Assistant: A pottery class for Ines.")
    page.get_by_label("Reason").fill("She bakes enough.")
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.locator(".flash")).to_contain_text("new version")
    expect(page.locator(".versions li")).to_have_count(2)
    page.get_by_role("link", name="Delete…").click()
    page.get_by_role("button", name="Delete for good").click()
    expect(page.locator(".flash")).to_contain_text("Deleted for good")

    page.goto(f"{bank}/entities")
    page.get_by_label("Keep").fill("Fernhill Robotics")
    page.get_by_label("Merge into it").fill("Fernhill")
    page.get_by_role("button", name="Merge").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".flash")).to_contain_text("undone")

    page.goto(f"{bank}/profile")
    page.get_by_label("Skepticism").fill("5")
    expect(page.locator("#skepticism-value")).to_have_text("5")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".flash")).to_have_text("Saved.")
    assert portal.run(memory.profile()).disposition.skepticism == 5

    page.goto(f"{bank}/messages")
    page.get_by_label("Select the message").first.check()
    page.get_by_role("button", name="Forget the selected…").click()
    expect(page.get_by_role("heading", name="This deletes")).to_be_visible()
    before = portal.run(memory.status()).messages
    page.get_by_role("button", name="Forget for good").click()
    expect(page.locator(".flash")).to_contain_text("1 message")
    assert portal.run(memory.status()).messages == before - 1
    page.get_by_role("button", name="Run maintenance").click()
    expect(page.locator(".flash")).to_contain_text("Maintenance has run")


def test_admin_creates_and_revokes_a_key(open_as: OpenAs) -> None:
    page = open_as("admin")
    page.goto("/console/keys")
    page.get_by_label("Name").fill("browser robot")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#secret")).to_contain_text("vmemo_")
    page.get_by_role("row", name="browser robot").get_by_role("button", name="Revoke").click()
    expect(page.locator(".flash")).to_contain_text("revoked")
    page.goto("/console/audit")
    expect(page.locator("tbody")).to_contain_text("/console/keys/{key}/revoke")


def test_theme_is_kept_and_keyboard_reaches_the_content(open_as: OpenAs, bank: str) -> None:
    page = open_as("read")
    page.goto(bank)
    background = "() => getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(background)
    assert light != dark
    page.goto(f"{bank}/facts")
    assert page.evaluate(background) == dark
    page.get_by_role("button", name="Switch between light and dark").click()
    page.keyboard.press("Escape")
    page.goto(f"{bank}/facts")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_hostile_content_runs_nothing_and_fits_a_phone(open_as: OpenAs, sample: LiveServer) -> None:
    memory = sample.memory.bank(HOSTILE)
    portal.run(fill_hostile(memory))
    page, bank = open_as("admin"), f"/console/banks/{quote(HOSTILE, safe='')}"
    page.set_viewport_size({"width": PHONE, "height": 800})
    facts = portal.run(memory.facts(limit=20))
    longest = max(facts, key=lambda fact: len(fact.text))
    for path in (*PAGES, f"/facts/{longest.id}", "/profile", "/recall?query=Where+does+Maya+work"):
        page.goto(bank + path)
        if path == "/graph":
            page.locator("#graph[data-ready]").wait_for()
        assert wide_elements(page) == [], path
