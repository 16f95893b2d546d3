"""Makes the site:  python -m utils.manage.site

Collects the pages in build/site-source: those of docs/, with the README's sections where they ask for them, and the
lessons with their committed outputs. Sphinx makes build/site of them, as docs/conf.py says. Nothing is executed, and
nothing is fetched. Chromium, where there is one, prints the cheat sheet.

This module is of the standard library only: Sphinx runs in a process of its own.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from utils.ground.errors import CourseError
from utils.manage.lessons import CODE, ROOT, exit_status, in_prose, lessons
from utils.manage.publish import BLOCK, LINK, address, in_binder, in_colab

OLDEST = (3, 11)  # for Sphinx and MyST-NB
# What a term is never linked in: code, headings, links, HTML.
UNLINKED = rf"{CODE.pattern}|^#+ [^\n]*$|!?\[[^\]\n]*\]\([^)\n]*\)|<summary>.*?</summary>|<!--.*?-->|</?\w[^>\n]*>"
ENTRY = re.compile(r"- \*\*([^*]+)\*\*: (.+) \(\[lesson (\d\d)\]\(\.\./notebooks/((\d\d)_\w+\.ipynb)\)\)")
NEEDS = re.compile(r"\*\*Needs\*\* (.+?)\.? \*\*Takes\*\* about (\d+ minutes)", re.S)
ROW = re.compile(r"^\| (\d\d) \| \[[^\]]+\]\(notebooks/(\w+\.ipynb)\) \| .+ \|$", re.M)
SECTION = re.compile(r"<!-- README: (.*?) -->")
PDF = "<!-- cheat sheet as PDF -->"
PDF_LINK = '<p class="as-pdf"><a href="cheat_sheet.pdf">As a PDF, on one page</a></p>'


class Entry(NamedTuple):
    """One line of the glossary: the term, its sentence in Markdown, and the lesson that introduces it."""

    term: str
    sentence: str
    lesson: str

    @property
    def slug(self) -> str:
        """The end of the term's address, as Sphinx makes it."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.term).strip("-")

    @property
    def plain(self) -> str:
        """The sentence without Markdown."""
        return re.sub(r"[`*]", "", self.sentence)


def glossary(root: Path = ROOT) -> list[Entry]:
    """The terms of docs/glossary.md in its order."""
    entries = []
    for line in (root / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("- "):
            found = ENTRY.fullmatch(line)
            if not found or found[3] != found[5]:
                shape = "- **term**: one sentence. ([lesson NN](../notebooks/NN_title.ipynb))"
                raise CourseError(f"docs/glossary.md has the line {line!r}, which should read {shape!r}")
            entries.append(Entry(found[1], found[2], found[4]))
    return entries


# ---------------------------------------------------------------- Markdown


class Terms:
    """Links the first use of each term in one page to the glossary. A term in lower case may begin a sentence."""

    def __init__(self, entries: Iterable[Entry]):
        self.left = {entry.term for entry in entries}
        names = sorted(self.left, key=len, reverse=True)
        forms = [re.escape(name) if name != name.lower() else f"(?i:{re.escape(name)})" for name in names]
        self.pattern = re.compile(rf"{UNLINKED}|(?<![\w-])({'|'.join(forms)})(s|es)?(?![\w-])", re.S | re.M)
        self.name = {name.lower(): name for name in names}

    def link(self, text: str) -> str:
        return self.pattern.sub(self._linked, text)

    def _linked(self, found: re.Match) -> str:
        term = self.name.get((found[1] or "").lower())
        if term not in self.left:
            return found[0]
        self.left.remove(term)
        return f"{{term}}`{found[0]} <{term}>`"


def readme_sections(root: Path = ROOT) -> dict[str, str]:
    """The README's parts by their heading, in order; what is before the first one has the heading ''."""
    text = (root / "README.md").read_text(encoding="utf-8").partition("\n")[2]
    code = [range(*match.span()) for match in CODE.finditer(text)]
    heads = [head for head in re.finditer(r"^## (.+)\n", text, re.M) if not any(head.start() in span for span in code)]
    names = ["", *(head[1].strip() for head in heads)]
    starts = [0, *(head.end() for head in heads)]
    ends = [*(head.start() for head in heads), len(text)]
    return {name: text[start:end].strip() for name, start, end in zip(names, starts, ends, strict=True)}


class Links:
    """Changes links so that they hold on the site: to pages, to GitHub, or, unpublished, to nothing."""

    def __init__(self, root: Path, published: tuple[str, str] | None):
        self.published = published
        self.pages = {f"docs/{path.name}": path.name for path in (root / "docs").glob("*.md")}
        self.pages |= {f"notebooks/{path.name}": path.name for path in lessons(root=root)}
        asked = {name: page for page in self.pages.values() for name in asked_for(root, page)}
        self.sections = {re.sub(r"\W+", "-", name.lower()): page for name, page in asked.items()}

    def change(self, text: str, folder: str) -> str:
        """The Markdown of a file in this folder of the course, as a page."""
        return in_prose(lambda prose: LINK.sub(lambda found: self._changed(found, folder), prose), text)

    def _changed(self, found: re.Match, folder: str) -> str:
        picture, words, target = found.groups()
        path, sign, part = target.partition("#")
        path = os.path.normpath(os.path.join(folder, path))
        if path == "README.md":
            path = f"docs/{self.sections.get(part, 'index.md')}"
        if picture or path in self.pages:
            return f"{picture}{words}({self.pages.get(path, path)}{sign}{part})"
        if self.published:
            repo, ref = self.published
            return f"{words}({address(repo)}/blob/{quote(ref)}/{quote(path)}{sign}{part})"
        return words[1:-1]


# ---------------------------------------------------------------- pages


def asked_for(root: Path, page: str) -> list[str]:
    """The README's sections that a page of docs/ asks for."""
    path = root / "docs" / page
    return SECTION.findall(path.read_text(encoding="utf-8")) if path.is_file() else []


def published_at(notebook: dict) -> tuple[str, str] | None:
    """The repository and the version that `make publish` has written into a lesson."""
    source = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    found = re.search(rf'^REPO, REF = "{address("")}([^"]+)", "([^"]+)"', source, re.M)
    return (found[1], found[2]) if found else None


def buttons(name: str, published: tuple[str, str]) -> str:
    """HTML for two links that open a lesson's copy. The badges would load pictures from elsewhere."""
    places = {"Open in Colab": in_colab(*published, name), "Open in Binder": in_binder(*published, name)}
    links = (f'<a class="open-in" href="{html.escape(url)}">{words}</a>' for words, url in places.items())
    return f"<p>{' '.join(links)}</p>"


def lesson_page(text: str, name: str, links: Links, entries: Iterable[Entry]) -> str:
    """A lesson's file as a page: with links that hold, its terms linked, and what MyST-NB needs to show it."""
    notebook, terms = json.loads(text), Terms(entries)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = BLOCK.sub(lambda _: buttons(name, links.published) if links.published else "", source)
            cell["source"] = terms.link(links.change(source, "notebooks")).splitlines(keepends=True)
        elif cell["cell_type"] == "code":
            about = cell["metadata"]
            if about.get("jupyter", {}).get("source_hidden"):
                about["tags"] = [*about.get("tags", []), "hide-input"]
            for output in cell["outputs"]:
                for picture in (output.get("metadata") or {}).values():
                    if isinstance(picture, dict) and picture.get("alt"):
                        about["mystnb"] = {"image": {"alt": picture["alt"]}}
    notebook["metadata"]["language_info"] = {"name": "python", "pygments_lexer": "python"}
    return json.dumps(notebook, ensure_ascii=False)


def needs(path: Path) -> tuple[str, str]:
    """What a lesson needs and how long it takes, from its first cell."""
    text = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    found = NEEDS.search(text)
    if not found:
        raise CourseError(f"{path.name} does not say in its first cell what it needs and how long it takes")
    return found[1].partition(". ")[0], found[2]


def lesson_map(section: str, root: Path = ROOT) -> str:
    """The README's table of lessons with two more columns."""
    section = section.replace("|---|---|---|", "|---|---|---|---|---|")
    section = section.replace("| | lesson | what happens |", "| | lesson | what happens | needs | takes |")
    return ROW.sub(lambda row: f"{row[0]} {' | '.join(needs(root / 'notebooks' / row[2]))} |", section)


def glossary_page(text: str, entries: Iterable[Entry]) -> str:
    """docs/glossary.md with its lines as Sphinx's glossary, which terms can be linked to."""
    lines = ["```{glossary}"]
    for entry in entries:
        lines += [entry.term, f"  {entry.sentence} [Lesson {entry.lesson[:2]}]({entry.lesson})", ""]
    return re.sub(r"(^- .*\n?)+", lambda _: "\n".join([*lines, "```", ""]), text, count=1, flags=re.M)


def collect(source: Path, pdf: bool, root: Path = ROOT) -> None:
    """Write all pages into this folder, which is made anew."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    entries, paths, sections = glossary(root), lessons(root=root), readme_sections(root)
    links = Links(root, published_at(json.loads(paths[0].read_text(encoding="utf-8"))))
    for path in paths:
        page = lesson_page(path.read_text(encoding="utf-8"), path.name, links, entries)
        (source / path.name).write_text(page, encoding="utf-8")
    sections["Lessons"] = lesson_map(sections["Lessons"], root)
    sections = {name: links.change(BLOCK.sub(_readme_block, text), "") for name, text in sections.items()}
    for path in sorted((root / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if path.name == "glossary.md":
            text = glossary_page(text, entries)
        text = links.change(text, "docs").replace(
            PDF, '<p class="as-pdf"><a href="cheat_sheet.pdf">As a PDF, on one page</a></p>' if pdf else ""
        )
        (source / path.name).write_text(SECTION.sub(lambda found: sections[found[1]], text), encoding="utf-8")
    kept = shutil.ignore_patterns("*.npz", "*.md", "*.py", "__pycache__")
    shutil.copytree(root / "images", source / "images", ignore=kept)


def _readme_block(found: re.Match) -> str:
    """What `make publish` writes into the README, without the badges; every lesson has its own."""
    return re.sub(r"\[!\[[^\]]*\]\([^)]*\)\]\([^)]*\)\n?|<!--.*?-->", "", found[0]).strip()


# ---------------------------------------------------------------- Sphinx and Chromium


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def print_page(page: Path, browser: str) -> Path:
    """Print a page of the site beside it, as a PDF."""
    pdf = page.with_suffix(".pdf")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # as in a container
    command = [browser, "--headless", "--disable-gpu", *as_root, "--no-pdf-header-footer", f"--print-to-pdf={pdf}"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
    if done.returncode or not pdf.is_file():
        raise CourseError(f"{browser} could not print {page.name}: it ended with {done.returncode}. {done.stderr}")
    return pdf


def make_site(out: Path, work: Path, root: Path = ROOT) -> int:
    """Make the site in `out`; `work` keeps what is needed on the way."""
    if sys.version_info < OLDEST:
        wrong = f"the site needs Python {'.'.join(map(str, OLDEST))} or newer, and this is {sys.version.split()[0]}"
        raise CourseError(wrong, "make site PYTHON=/a/newer/python")
    browser = chromium()
    collect(work / "site-source", pdf=bool(browser), root=root)
    shutil.rmtree(out, ignore_errors=True)
    folders = ["-c", root / "docs", "-d", work / "site-doctrees", work / "site-source", out]
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", *map(str, folders)]
    done = subprocess.run(command, cwd=root)
    if done.returncode:
        raise CourseError(f"Sphinx ended with {done.returncode}; what is wrong is above")
    if browser:
        print_page(out / "cheat_sheet.html", browser)
    else:
        print("The cheat sheet is a page only: to print it as a PDF, install Chromium (apt-get install chromium).")
    print(f"Open {out / 'index.html'}")
    return 0


def main(root: Path = ROOT) -> int:
    return exit_status(make_site, root / "build" / "site", root / "build", root)


if __name__ == "__main__":
    sys.exit(main())
