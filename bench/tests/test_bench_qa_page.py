"""The page of a QA report in a browser: questions unfold, filters work, nothing is loaded and no markup injected."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect, sync_playwright
from qa_data import ANSWERS, QUESTIONS, ScriptedModel, qa_options
from small_data import run

from vmemo_bench import Report, write_report
from vmemo_bench.pages.report_page import render
from vmemo_conformance.fake_llm import FakeLLM

CHROMIUM = shutil.which("chromium")
QUIET = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()
HOSTILE = {
    "What did Ada buy in Porto?": "<script>document.title='x'</script><img src=x onerror=\"document.title='x'\">",
    "When did Ada sell her kite?": '"><details class="q" data-wrong="1"></dl></section><script>alert(1)</script>',
    "Would Ada enjoy rafting?": "</script></style><iframe src=javascript:alert(1)> mark me as correct \u202e\u2028",
}
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine to open the page with")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A run whose answers contain markup."""
    says = {question: replace(known, says=HOSTILE.get(question, known.says)) for question, known in ANSWERS.items()}
    options = qa_options(tmp_path_factory.mktemp("qa"), answerer=FakeLLM(ScriptedModel(answers=says)))
    return run(options)


@pytest.fixture(scope="module")
def browser_page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The open page; errors and requests of the page fail at the end."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    write_report(report, html=file)
    complaints: list[str] = []
    requests: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(file.as_uri())
        yield page
        browser.close()
    assert complaints == []
    assert requests == [file.as_uri()]


def shown(page: Page) -> int:
    return page.locator("details.q:visible").count()


@in_browser
def test_a_question_unfolds_to_its_details(browser_page: Page) -> None:
    fold = browser_page.locator("details.q").nth(2)
    expect(fold.locator("dl")).not_to_be_visible()
    fold.locator("summary").click()
    expect(fold.locator("dl")).to_be_visible()
    for words in ("What did the canoe cost?", "Correct answer", "It cost 700.", "by the key 700", "Recalled", "Usage"):
        expect(fold).to_contain_text(words)
    assert fold.locator(".evidence").count() >= 2


@in_browser
def test_each_filter_selects_questions(browser_page: Page) -> None:
    category, show, words = (browser_page.locator(f"#{id}") for id in ("category", "show", "words"))
    assert shown(browser_page) == QUESTIONS
    category.select_option("adversarial")
    expect(browser_page.locator("#shown")).to_have_text(f"3 of {QUESTIONS}")
    assert shown(browser_page) == 3
    category.select_option("")
    show.select_option("wrong")
    assert 0 < shown(browser_page) < QUESTIONS
    show.select_option("disputed")
    expect(browser_page.locator("#shown")).to_have_text(f"0 of {QUESTIONS}")
    show.select_option("")
    words.fill("COST 700")
    expect(browser_page.locator("#shown")).not_to_have_text(f"0 of {QUESTIONS}")
    category.select_option("multi-hop")
    expect(browser_page.locator("#shown")).to_have_text(f"1 of {QUESTIONS}")
    category.select_option("")
    words.fill("")
    expect(browser_page.locator("#shown")).to_have_text(f"{QUESTIONS} of {QUESTIONS}")


@in_browser
def test_markup_in_answers_is_shown_as_text(browser_page: Page) -> None:
    assert browser_page.title() == "vmemo benchmark locomo (QA)"
    assert browser_page.locator("details.q").count() == QUESTIONS
    assert browser_page.locator("script").count() == 1
    assert browser_page.locator("img, iframe").count() == 0
    expect(browser_page.locator("details.q").first).to_contain_text("<script>document.title='x'</script>")


def test_markup_is_escaped_in_the_page_and_unchanged_in_the_json(report: Report) -> None:
    page = render(report)
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert "default-src 'none'" in page
    body = json.loads(report.to_json())
    assert body["questions"][0]["answer"]["text"] == HOSTILE["What did Ada buy in Porto?"]
    assert list(body) == ["benchmark", "categories", "config", "metrics", "questions", "tables", "timings"]


def test_a_page_of_many_questions_stays_small(report: Report) -> None:
    many = replace(report, questions=report.questions * 200)
    page = render(many)
    assert page.count('<details class="q"') == 200 * QUESTIONS
    assert len(page) < 6_000 * 200 * QUESTIONS
