"""The page of a replay in a real browser: it works from a file, reaches no host, and its marks become cases."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from typer.testing import Result

Run = Callable[..., Result]
CHROMIUM = shutil.which("chromium")
FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()
CHATGPT = Path(__file__).parents[2] / "tests" / "fixtures" / "imports" / "chatgpt.json"
VIOLATIONS = "document.addEventListener('securitypolicyviolation', e => console.error('CSP', e.blockedURI))"
LAPTOP, PHONE = 1400, 390
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine to open the page with")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the module."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[[Path], Page]]:
    """Opens a file; errors, violations of its policy and requests of any other address fail the test."""
    complaints: list[str] = []
    context = chromium.new_context(viewport={"width": LAPTOP, "height": 900}, accept_downloads=True)
    context.add_init_script(VIOLATIONS)

    def open_page(file: Path) -> Page:
        page, address = context.new_page(), file.as_uri()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        known = (address, "blob:")
        page.on("request", lambda each: None if each.url.startswith(known) else complaints.append(each.url))
        page.goto(address)
        return page

    yield open_page
    context.close()
    assert not complaints


@pytest.fixture
def opened(open_page: Callable[[Path], Page], replayed: Path) -> Page:
    """The page of the replay."""
    return open_page(replayed / "replay.html")


@needs_chromium
def test_the_slider_and_the_filters_show_what_memory_knew_at_a_turn(opened: Page) -> None:
    expect(opened.locator("#list button")).to_have_count(7)
    opened.locator("#slider").fill("3")
    expect(opened.locator("blockquote")).to_have_text("Where do I live?")
    expect(opened.locator(".hit .text").first).to_contain_text("Rome")
    expect(opened.locator("#known")).to_contain_text("2 facts that held then")
    opened.locator("[data-flag=unanswerable]").click()
    expect(opened.locator("#list button")).to_have_count(1)
    expect(opened.locator("blockquote")).to_have_text("What is my blood type?")
    opened.get_by_role("button", name="all 7").click()
    opened.get_by_label("Search").fill("live now")
    expect(opened.locator("#list button")).to_have_count(1)


@needs_chromium
def test_the_page_fits_a_phone(opened: Page) -> None:
    opened.set_viewport_size({"width": PHONE, "height": 800})
    assert opened.evaluate("document.documentElement.scrollWidth") == PHONE


@needs_chromium
def test_marked_hits_are_downloaded_as_cases_that_run(
    opened: Page, replayed: Path, test_command: Run, tmp_path: Path
) -> None:
    opened.locator("#list button", has_text="Where do I live?").click()
    opened.locator(".marks .right").first.click()
    opened.locator("#list button", has_text="blood type").click()
    opened.get_by_role("button", name="Nothing should be recalled here").click()
    with opened.expect_download() as downloaded:
        opened.get_by_role("button", name="Download 2 cases").click()
    downloaded.value.save_as(tmp_path / "cases.yaml")
    shutil.copy(replayed / "ana.json", tmp_path)
    result = test_command(tmp_path / "cases.yaml")
    assert result.exit_code == 0, result.output
    assert "2 cases passed" in result.stdout
    with opened.expect_download() as saved:
        opened.get_by_role("button", name="Save report with marks").click()
    saved.value.save_as(tmp_path / "marked.json")
    recorded = test_command("--record", tmp_path / "again.yaml", "--report", tmp_path / "marked.json")
    assert "2 cases written" in recorded.output


@needs_chromium
def test_an_export_of_chatgpt_becomes_a_page_and_cases(
    open_page: Callable[[Path], Page], replay_command: Run, test_command: Run, tmp_path: Path
) -> None:
    shutil.copy(CHATGPT, tmp_path)
    page = tmp_path / "page.html"
    replayed = replay_command(tmp_path / "chatgpt.json", "--from", "chatgpt", "--html", page)
    assert replayed.exit_code == 0, replayed.output
    opened = open_page(page)
    opened.locator("#list button").last.click()
    opened.locator(".marks .wrong").first.click()
    with opened.expect_download() as downloaded:
        opened.get_by_role("button", name="Download 1 case").click()
    downloaded.value.save_as(tmp_path / "cases.yaml")
    assert 'from: "chatgpt"' in (tmp_path / "cases.yaml").read_text("utf-8")
    result = test_command(tmp_path / "cases.yaml")
    assert result.exit_code == 1
    assert "must_not_recall" in result.stdout


def test_a_message_cannot_end_the_script_element(replay_command: Run, tmp_path: Path) -> None:
    file, page = tmp_path / "<b>.json", tmp_path / "page.html"
    file.write_text('[{"role": "user", "content": "</script><script>alert(1)</script> I live in Rome.\\u2028{x}"}]')
    assert replay_command(file, "--html", page).exit_code == 0
    text = page.read_text("utf-8")
    assert text.count("</script>") == 2
    assert "alert(1)" in text
    assert "<b>" not in text.partition("<style>")[0]
