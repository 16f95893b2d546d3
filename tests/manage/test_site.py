"""The site: its glossary, its links and its cheat sheet hold; where Sphinx is installed, it is built and read."""

import importlib.util
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from utils.cuda.common import gpus
from utils.ground.errors import CourseError
from utils.manage import site
from utils.manage.lessons import ROOT, in_prose, lessons
from utils.manage.publish import publish_notebook
from utils.manage.site import Entry, Links, Terms, glossary, lesson_page

PAGES = sorted((ROOT / "docs").glob("*.md"))
ENTRIES = glossary()
LACKING = [name for name in ("sphinx", "myst_nb", "sphinx_book_theme") if importlib.util.find_spec(name) is None]


def prose(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


# ---------------------------------------------------------------- the glossary


def test_terms_are_in_alphabetical_order_and_each_is_there_once():
    terms = [entry.term.lower() for entry in ENTRIES]
    assert len(terms) > 50 and terms == sorted(set(terms))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.term)
def test_a_term_has_one_sentence_and_occurs_in_its_lesson(entry):
    assert re.fullmatch(r"[A-Z0-9].*[^.]\.", entry.sentence) and not re.search(r"[.!?] +[A-Z]", entry.sentence)
    text = prose(ROOT / "notebooks" / entry.lesson)
    assert f" <{entry.term}>`" in Terms([entry]).link(text), f"{entry.lesson} does not use {entry.term!r}"


def test_a_line_of_the_glossary_in_another_shape_is_named(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "glossary.md").write_text("- **warp**: 32 threads.\n")
    with pytest.raises(CourseError, match=r"'- \*\*warp\*\*: 32 threads.', which should read"):
        glossary(tmp_path)


def test_the_first_use_is_linked_outside_of_code_links_and_headings():
    terms = Terms([Entry("bank", "", ""), Entry("bank conflict", "", ""), Entry("SM", "", "")])
    text = "# Bank\n`bank` [bank](x.md) **Bank conflicts** and banks, a bank; sm, SMs\n```\nSM\n```\nbank-like"
    assert terms.link(text) == (
        "# Bank\n`bank` [bank](x.md) **{term}`Bank conflicts <bank conflict>`** and {term}`banks <bank>`, a bank; "
        "sm, {term}`SMs <SM>`\n```\nSM\n```\nbank-like"
    )
    assert terms.link("SMs and banks on the next page") == "SMs and banks on the next page"


# ---------------------------------------------------------------- links


def test_code_is_no_prose():
    assert in_prose(str.upper, "a `b` c\n```py\nd\n```\ne") == "A `b` C\n```py\nd\n```\nE"


@pytest.mark.parametrize("published", [None, ("owner/name", "v1.0")])
def test_links_lead_to_pages_to_github_or_nowhere(published):
    links = Links(ROOT, published)
    lesson = lessons()[0].name
    file = "[f](https://github.com/owner/name/blob/v1.0/Makefile)" if published else "f"
    for text, expected in {
        f"[a]({lesson}#b)": f"[a]({lesson}#b)",
        "[a](../README.md#lessons)": "[a](index.md#lessons)",
        "[a](../README.md#ask-the-kernel)": "[a](your_kernels.md#ask-the-kernel)",
        "[a](../docs/glossary.md)": "[a](glossary.md)",
        "![a](../images/b.png)": "![a](images/b.png)",
        "[f](../Makefile)": file,
        "[a](https://example.org)": "[a](https://example.org)",
        "`k[a](b)`": "`k[a](b)`",
    }.items():
        assert links.change(text, "notebooks") == expected


@pytest.mark.parametrize("path", [*PAGES, *lessons()], ids=lambda path: path.stem)
def test_links_lead_to_files_that_exist(path):
    text = prose(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    targets = []
    in_prose(lambda part: targets.extend(re.findall(r"\]\((?!https?:|#)([^)#\s]+)", part)) or part, text)
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_section_of_the_readme_is_on_one_page():
    asked = [name for path in PAGES for name in site.asked_for(ROOT, path.name)]
    assert sorted(asked) == sorted(site.readme_sections())


# ---------------------------------------------------------------- lessons


def test_a_published_lesson_has_two_buttons_and_loads_no_badges():
    path = lessons()[0]
    text = publish_notebook(path.read_text(encoding="utf-8"), path.name, "owner/name", "v1.0")
    assert site.published_at(json.loads(text)) == ("owner/name", "v1.0")
    first = "".join(
        json.loads(lesson_page(text, path.name, Links(ROOT, ("owner/name", "v1.0")), []))["cells"][0]["source"]
    )
    assert "colab-badge" not in first and first.count('class="open-in"') == 2
    assert f"colab.research.google.com/github/owner/name/blob/v1.0/colab/{path.name}" in first


def test_an_unpublished_lesson_has_no_buttons():
    path = lessons()[0]
    assert "open-in" not in lesson_page(path.read_text(encoding="utf-8"), path.name, Links(ROOT, None), ENTRIES)


@pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem)
def test_a_lesson_says_what_it_needs(path):
    needs, takes = site.needs(path)
    assert needs and re.fullmatch(r"\d+ minutes", takes)


def test_the_code_of_the_cheat_sheet_runs(capsys):
    text = (ROOT / "docs" / "cheat_sheet.md").read_text(encoding="utf-8")
    kernel, reverse = (code.removeprefix("%%cuda\n") for code in re.findall(r"```cuda\n(.*?)```", text, re.S))
    names = {"source": kernel}
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(code, names)
    torch, compile_kernel, device = names["torch"], names["compile_kernel"], names["device"]
    x = torch.arange(128.0, device=device())
    out = torch.empty_like(x)
    compile_kernel(reverse, "reverse")[2, 64](x, out)
    torch.testing.assert_close(out, x.view(2, 64).flip(1).flatten())


def test_the_limits_of_the_cheat_sheet_are_those_that_the_course_computes_with():
    text = (ROOT / "docs" / "cheat_sheet.md").read_text(encoding="utf-8")
    names, sizes = re.search(r"^\| dynamic: (.+) \| (.+) KB \|$", text, re.M).groups()
    known = [gpus.named(name).limits.block_shared_bytes // 1024 for name in names.split(", ")]
    assert [int(size) for size in sizes.split(", ")] == known
    assert f"| threads per block | {gpus.BLOCK_THREADS:,} |" in text
    assert f"| static shared memory per block | {gpus.BLOCK_SHARED_BYTES // 1024} KB |" in text
    assert f"| registers per thread | {gpus.REGISTERS_PER_THREAD} |" in text


# ---------------------------------------------------------------- the built site


class Page(HTMLParser):
    """The links, the names of places and the scripts of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.loaded = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values.get("id"), values.get("name")}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in ("script", "img", "iframe") and values.get("src"):
            self.loaded.append(values["src"])
        if tag == "link" and "stylesheet" in (values.get("rel") or ""):
            self.loaded.append(values["href"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if sys.version_info < site.OLDEST or LACKING:
        pytest.skip("needs Python 3.11 and Sphinx: pip install --editable '.[docs]'")
    work = tmp_path_factory.mktemp("site")
    assert site.make_site(work / "out", work) == 0  # stops at a warning
    return work / "out"


def test_links_inside_the_site_hold_and_nothing_comes_from_elsewhere(built):
    pages = {path.name: Page(path) for path in built.glob("*.html")}
    assert {f"{path.stem}.html" for path in [*lessons(), *PAGES]} <= pages.keys()
    broken = []
    for name, page in pages.items():
        assert [address for address in page.loaded if address.startswith(("http", "//"))] == []
        for link in page.links:
            path, _, part = link.partition("#")
            if re.match(r"[a-z]+:", link) or name in ("search.html", "genindex.html"):
                continue
            there = pages.get(path or name)
            if not (built / (path or name)).is_file() or (part and there and part not in there.ids):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_lessons_show_cuda_as_cpp_players_folds_and_terms(built):
    html = (built / "07_shared_memory.html").read_text(encoding="utf-8")
    assert '<span class="kr">__global__</span>' in html and '<span class="kt">__shared__</span>' in html
    assert 'class="cuda-player"' in html and "<details><summary>Solution" in html
    assert re.search(r'href="glossary.html#term-barrier" title="A point in a kernel', html)
    string = (built / "03_grayscale_in_cuda.html").read_text(encoding="utf-8").partition("cuda_src</span>")[2]
    assert '<span class="kr">__global__</span>' in string


@pytest.mark.skipif(not shutil.which("chromium") and not shutil.which("google-chrome"), reason="needs Chromium")
def test_the_cheat_sheet_is_one_page(built):
    pdf = (built / "cheat_sheet.pdf").read_bytes()
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 1 and 'href="cheat_sheet.pdf"' in Path(
        built / "cheat_sheet.html"
    ).read_text(encoding="utf-8")
