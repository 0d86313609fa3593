"""Make the screenshots of the console again: `python scripts/console_screenshots.py [FOLDER]`, by default docs/assets.

Needs Playwright and Debian's chromium. `--all` takes every page at both widths, in light and dark, to look at.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
PORT = 8391
CONSOLE = f"http://127.0.0.1:{PORT}/console"
BANK = f"{CONSOLE}/banks/demo"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PAGES = {
    "overview": "",
    "facts": "/facts",
    "entities": "/entities",
    "graph": "/graph",
    "opinions": "/opinions",
    "observations": "/observations",
    "profile": "/profile",
    "recall": "/recall?query=Where%20does%20Maya%20work%3F&max_tokens=300",
    "chat": "/chat",
    "replay": "/replay",
    "cases": "/cases",
    "live": "/live",
    "messages": "/messages",
    "episodes": "/episodes",
    "forget": "/forget?entity=Priya",
}
SERVER_PAGES = {
    "banks": "",
    "keys": "/keys",
    "audit": "/audit",
    "usage": "/usage",
    "reports": "/reports",
    "sign-in": "/sign-in",
}
LINKED = {
    "fact": ("/facts?state=closed", ".fact-link"),
    "opinion": ("/opinions", ".fact-link:has-text('machine learning')"),
}
"""Pages whose address has an id, reached by the first link of a list."""
SHOWN = ("overview", "facts", "recall", "opinion", "replay")
"""Pages of the documentation."""
WIDTHS = (1400, 390)
START_SECONDS = 90


@contextmanager
def demo() -> Generator[None]:
    """Run `vmemo demo --console` while the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "vmemo", "demo", "--console", "--port", str(PORT), "--db", f"{folder}/demo.db"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                _wait_for(process)
                yield
            finally:
                process.terminate()


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline and process.poll() is None:
        try:
            with urlopen(f"http://127.0.0.1:{PORT}/health"):
                return
        except URLError:
            sleep(0.2)
    raise SystemExit("vmemo demo --console did not start.")


def open_page(page: Page, name: str) -> None:
    """Open a page and wait until it is drawn."""
    if name in LINKED:
        path, link = LINKED[name]
        page.goto(BANK + path)
        page.locator(link).first.click()
    else:
        page.goto(BANK + PAGES[name] if name in PAGES else CONSOLE + SERVER_PAGES[name])
    if name == "chat":
        page.get_by_label("Question").fill("What food does Maya avoid?")
        page.get_by_role("button", name="Ask").click()
        page.locator(".cite").first.click()
        page.locator(".opened .fact-card").wait_for()
    if name == "replay":
        page.get_by_role("button", name="Replay a sample conversation").click()
        page.locator("#list button", has_text="Ines is getting married").click()
        page.locator(".marks .right").nth(1).click()
        page.locator("#replay").evaluate("view => view.scrollIntoView()")
    if name == "graph":
        page.locator("#graph[data-ready]").wait_for()
        page.wait_for_timeout(300)
    if name == "forget":
        page.get_by_role("button", name="Forget for good").wait_for()
    page.wait_for_load_state("networkidle")


def take(browser: Browser, folder: Path, names: Iterable[str], *, width: int, dark: bool) -> None:
    """Take screenshots of pages at one width, in light or dark."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    page = context.new_page()
    for name in names:
        open_page(page, name)
        suffix = "" if width == WIDTHS[0] and not dark else f"-{width}{'-dark' if dark else ''}"
        page.screenshot(path=folder / f"console-{name}{suffix}.png", full_page=width < WIDTHS[0])
    context.close()


def main(arguments: list[str]) -> int:
    """Take the screenshots and return the exit status."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("There is no chromium on this machine: apt install chromium")
        return 1
    every = "--all" in arguments
    given = [argument for argument in arguments if argument != "--all"]
    folder = Path(given[0]) if given else ROOT / "docs" / "assets"
    folder.mkdir(parents=True, exist_ok=True)
    with demo(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        if not every:
            take(browser, folder, SHOWN, width=WIDTHS[0], dark=False)
        for width in WIDTHS if every else ():
            for dark in (False, True):
                take(browser, folder, (*PAGES, *LINKED, *SERVER_PAGES), width=width, dark=dark)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
