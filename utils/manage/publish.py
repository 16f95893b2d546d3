"""Writes the course's public address into it, or takes it out again:

    python3 -m utils.manage.publish OWNER/NAME REF
    python3 -m utils.manage.publish --undo

Every notebook gets badges for Colab and Binder under its title, and the address and version in its set-up cell; the
README gets the badges and the command that fetches the course. The Colab badges open copies in colab/, which have no
outputs and whose links are absolute; the Binder badges open those in lab/, which .binder/postBuild makes. Nothing else
changes, and it can be run again with another name. Standard library only: it runs with any Python.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from urllib.parse import quote

from utils.ground.errors import CourseError
from utils.ground.system import write
from utils.manage.lessons import handed_out, in_prose

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- publish:begin -->", "<!-- publish:end -->"
BLOCK = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.S)
HERE = f"{BEGIN}\nIn the folder of this course, type:\n{END}"  # in the README of a course that is not published
LINK = re.compile(r"(!?)(\[[^\]\n]*\])\((?!https?:|#|data:|attachment:)([^()\s]+)\)")
EXAMPLE = "make publish REPO=owner/name REF=v1.0"
SET_UP = re.compile(r'^REPO, REF = "[^"\n]*", "[^"\n]*"', re.M)


class PublishError(CourseError):
    """Nothing was written."""


def require_address(repo: str, ref: str) -> None:
    """Refuse what is not owner/name on GitHub, and what cannot be the name of a branch or tag."""
    owner, _, name = repo.partition("/")
    if not re.fullmatch(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,38}", owner) or not re.fullmatch(r"[\w.-]{1,100}", name, re.A):
        raise PublishError(f"REPO is {repo!r}, which is not owner/name", EXAMPLE)
    if name in (".", "..") or name.endswith(".git"):
        raise PublishError(f"REPO is {repo!r}: {name!r} cannot be the name of a repository on GitHub", EXAMPLE)
    if not ref:
        raise PublishError("REF is missing: the tag or branch that readers get", EXAMPLE)
    if re.fullmatch(r"[0-9a-f]{40}", ref):
        wrong = f"REF is {ref!r}, a commit: `git clone --branch` takes tags and branches only"
        raise PublishError(wrong, f"git tag v1.0 {ref}")
    # The rules of `git check-ref-format`, without the characters that must be quoted in a shell or an address.
    bad = r"\.\.|//|/\.|\.lock(/|$)|[/.]$"
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*", ref) or re.search(bad, ref):
        raise PublishError(f"REF is {ref!r}, which cannot be a tag or branch", EXAMPLE)


def address(repo: str) -> str:
    return f"https://github.com/{repo}"


def in_colab(repo: str, ref: str, name: str) -> str:
    """The address that opens the copy of a notebook in Colab."""
    return f"https://colab.research.google.com/github/{repo}/blob/{quote(ref)}/colab/{quote(name)}"


def in_binder(repo: str, ref: str, name: str) -> str:
    """The address that opens the copy of a notebook in Binder."""
    return f"https://mybinder.org/v2/gh/{repo}/{quote(ref, safe='')}?urlpath=lab/tree/lab/{quote(name)}"


def badges(repo: str, ref: str, name: str) -> str:
    """Markdown for two badges that open a notebook's copy, given by its file's name."""
    colab = "https://colab.research.google.com/assets/colab-badge.svg"
    return (
        f"[![Open in Colab]({colab})]({in_colab(repo, ref, name)})\n"
        f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({in_binder(repo, ref, name)})"
    )


def block(text: str) -> str:
    return f"{BEGIN}\n{text}\n{END}"


def publish_notebook(text: str, name: str, repo: str, ref: str) -> str:
    """The text of a notebook file with badges and address; only those two cells' sources differ."""
    nb = json.loads(text)
    first = nb["cells"][0]
    source = "".join(first["source"])
    if first["cell_type"] != "markdown" or not source.startswith("# "):
        raise PublishError(f"{name}: its first cell does not open with a heading, so there is no place for badges")
    new = block("\n" + badges(repo, ref, name) + "\n")
    if BLOCK.search(source):
        source = BLOCK.sub(lambda _: new, source, count=1)
    else:
        heading, _, rest = source.partition("\n")
        source = f"{heading}\n\n{new}\n\n{rest.lstrip()}" if rest.strip() else f"{heading}\n\n{new}"
    first["source"] = source.splitlines(keepends=True)

    found = [cell for cell in nb["cells"] if cell["cell_type"] == "code" and SET_UP.search("".join(cell["source"]))]
    if len(found) != 1:
        raise PublishError(f'{name}: {len(found)} cells have a line `REPO, REF = "...", "..."`, and it must be one')
    line = f'REPO, REF = "{address(repo)}", "{ref}"'
    found[0]["source"] = SET_UP.sub(lambda _: line, "".join(found[0]["source"])).splitlines(keepends=True)
    return json.dumps(nb, indent=1, ensure_ascii=False) + "\n"


def publish_readme(text: str, repo: str, ref: str, first: str) -> str:
    """The README's text with badges for the first lesson and the command that fetches the course."""
    if len(BLOCK.findall(text)) != 1:
        raise PublishError(f"README.md: there must be one pair of {BEGIN} and {END}, and one after the other")
    fetch = f"git clone --branch {ref} {address(repo)}.git\ncd {repo.partition('/')[2]}"
    new = block(f"{badges(repo, ref, first)}\n\nFetch the course:\n\n```sh\n{fetch}\n```\n\nThere:")
    return BLOCK.sub(lambda _: new, text)


def colab_copy(text: str, repo: str, ref: str) -> str:
    """A published notebook's copy for Colab: without outputs, every link to a file of the course absolute, and what
    JupyterLab shows folded is folded."""
    notebook = json.loads(handed_out(text))
    files, pictures = f"{address(repo)}/blob/{quote(ref)}", f"https://raw.githubusercontent.com/{repo}/{quote(ref)}"

    def absolute(link: re.Match) -> str:
        picture, words, target = link.groups()
        path, sign, part = target.partition("#")
        path = os.path.normpath(os.path.join("notebooks", path)).replace(os.sep, "/")
        if not picture and re.fullmatch(r"notebooks/[0-9][0-9]_\w+\.ipynb", path):
            return f"{words}({in_colab(repo, ref, path.partition('/')[2])}{sign}{part})"
        return f"{picture}{words}({pictures if picture else files}/{quote(path)}{sign}{part})"

    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = in_prose(lambda prose: LINK.sub(absolute, prose), "".join(cell["source"]))
            cell["source"] = source.splitlines(keepends=True)
        elif cell["metadata"].get("jupyter", {}).get("source_hidden"):
            cell["metadata"]["cellView"] = "form"  # the same in Colab's words
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def withdraw_notebook(text: str) -> str:
    """The text of a notebook file as it was before it was published."""
    nb = json.loads(text)
    for cell in nb["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            new = re.sub(rf"\n\n{BLOCK.pattern}(?=\n\n|$)", "", source, count=1, flags=re.S)
        else:
            new = SET_UP.sub('REPO, REF = "", ""', source)
        if new != source:
            cell["source"] = new.splitlines(keepends=True)
    return json.dumps(nb, indent=1, ensure_ascii=False) + "\n"


def files_of(root: Path) -> tuple[list[Path], Path]:
    """The notebooks in reading order, and the README."""
    notebooks = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    if not notebooks:
        raise PublishError(f"There are no lessons in {root / 'notebooks'}")
    return notebooks, root / "README.md"


def publish(repo: str, ref: str, root: Path = ROOT) -> list[Path]:
    """Write the address everywhere; returns the files that changed. On an error none has."""
    require_address(repo, ref)
    notebooks, readme = files_of(root)
    new = {path: publish_notebook(path.read_text(encoding="utf-8"), path.name, repo, ref) for path in notebooks}
    copies = {root / "colab" / path.name: colab_copy(text, repo, ref) for path, text in new.items()}
    new[readme] = publish_readme(readme.read_text(encoding="utf-8"), repo, ref, notebooks[0].name)
    return write_changed(new | copies, root)


def withdraw(root: Path = ROOT) -> list[Path]:
    """Take the address out everywhere; returns the files that changed."""
    notebooks, readme = files_of(root)
    new = {path: withdraw_notebook(path.read_text(encoding="utf-8")) for path in notebooks}
    new[readme] = BLOCK.sub(lambda _: HERE, readme.read_text(encoding="utf-8"))
    return write_changed(new, root)


def write_changed(texts: dict[Path, str], root: Path) -> list[Path]:
    """Write the files whose text is another, and remove what else is in colab/; returns the paths of both."""
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        path.parent.mkdir(exist_ok=True)
        write(path, texts[path])
    left = [path for path in (root / "colab").glob("*.ipynb") if path not in texts]
    for path in left:
        path.unlink()
    if left and not any((root / "colab").iterdir()):
        (root / "colab").rmdir()
    return changed + left


def main(arguments: list[str], root: Path = ROOT) -> int:
    undo = arguments == ["--undo"]
    if not undo and len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        changed = withdraw(root) if undo else publish(*arguments, root)
    except PublishError as problem:
        print(f"Nothing was written. {problem}", file=sys.stderr)
        return 2
    if not changed:
        print("Nothing to do: the course has no address." if undo else "Nothing to do: the course has this address.")
        return 0
    for path in changed:
        print(f"{'written' if path.exists() else 'removed'}: {path.relative_to(root)}")
    if undo:
        print(f"{len(changed)} files changed: the course has no address now.")
        return 0
    repo, ref = arguments
    print(f"{len(changed)} files changed: {address(repo)}, {ref}")
    print(f"Readers get what {ref} has there: commit this, tag or branch it as {ref}, and push it.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
