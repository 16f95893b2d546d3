"""A real browser: Playwright with the system's Chromium. `make test-browser` runs this folder, `make test` does not."""

import shutil

import pytest

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window."""
    if sync_playwright is None:
        pytest.skip("needs Playwright: pip install --editable '.[browser]'")
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which Playwright is not to download: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser, tmp_path):
    """Open a text as a page of so many pixels; fails at the end if a script of the page failed."""
    contexts, errors = [], []

    def opened(html, width=1280, height=720, **options):
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, **options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []
