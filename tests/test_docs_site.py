"""The documentation as a site: if these fail, pages are missing, links lead nowhere, or others learn who reads what."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest
from mkdocs.config import load_config

import colonnade as co
import test_docs

ROOT = Path(__file__).parents[1]
CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""What a browser fetches without being asked: tags, and where they say from where."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; a warning of any kind is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Page(HTMLParser):
    """Notes what a page fetches, the ids on it, and its text outside of code."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self._open += [tag] if tag in ("script", "style", "code") else []
        if address := values.get(FETCHED.get(tag, "")):
            self.fetched.append(address)
        if name := values.get("id"):
            self.ids.add(name)

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        self.text += "" if self._open else data


def pages_in(entry):
    """Return the files of a navigation, whatever is nested in what."""
    if isinstance(entry, str):
        return [entry]
    return [file for inner in (entry.values() if isinstance(entry, dict) else entry) for file in pages_in(inner)]


def test_every_page_is_in_the_navigation_and_was_built(site):
    listed = pages_in(load_config(str(ROOT / "mkdocs.yml")).nav)
    assert sorted(listed) == sorted(str(page.relative_to(test_docs.DOCS)) for page in test_docs.DOCS.rglob("*.md"))
    assert [page for page in listed if not (site / page).with_suffix(".html").is_file()] == []


def test_a_page_fetches_nothing_from_elsewhere(site):
    """No font, script, style or picture comes from a server that would learn who reads what."""
    for file in site.rglob("*.html"):
        foreign = [address for address in Page(file).fetched if "//" in address]
        assert foreign == [], file
    for file in site.rglob("*.css"):
        assert "@import" not in file.read_text() and "url(http" not in file.read_text(), file


def test_every_block_of_code_became_one(site):
    """A fence that the site does not understand would show as text."""
    assert [file.name for file in site.rglob("*.html") if "```" in Page(file).text] == []


def test_every_public_name_has_its_docstring_on_the_site(site):
    from colonnade.sklearn import __all__ as estimators

    # `co.align` shares its name with a room, where the function is called otherwise.
    expected = {*co.__all__, *estimators, "align_federation"} - {"align"}
    described = {name.rsplit(".", 1)[-1] for name in Page(site / "reference" / "docstrings.html").ids}
    assert expected <= described


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: install Debian's 'chromium' to try the site")
def test_the_site_is_quiet_in_a_browser_and_can_be_searched(site):
    from playwright.sync_api import sync_playwright

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        trouble = []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda asked: trouble.append(asked.url) if not asked.url.startswith(address) else None)
        page.goto(f"{address}concepts/batch.html")
        # The page listens to keys: a text that is put there at once is overlooked if the search was ready before.
        page.locator("input.md-search__input").press_sequentially("ledger")
        page.wait_for_selector(".md-search-result__item")
        drawn = page.evaluate("[...document.querySelectorAll('article img')].map((i) => [i.naturalWidth, i.alt])")
        browser.close()
    server.shutdown()
    assert trouble == []
    assert drawn and all(width > 0 and alt for width, alt in drawn)


@pytest.mark.slow
def test_the_first_steps_work_when_pasted(tmp_path):
    test_docs.paste(test_docs.DOCS / "getting-started.md", tmp_path)
    assert (tmp_path / "model").is_dir() and (tmp_path / "runs" / "report.html").is_file()
