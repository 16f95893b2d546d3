"""Writes the course's public address into it:  python3 -m utils.manage.publish OWNER/NAME REF

Every notebook gets badges for Colab and Binder under its title, and the address and version in its set-up cell; the
README gets the badges and the command that fetches the course. Nothing else changes, and it can be run again with
another name. Standard library only: it runs with any Python, without installing anything.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from urllib.parse import quote

from utils.ground.errors import CourseError
from utils.ground.system import write

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- publish:begin -->", "<!-- publish:end -->"
BLOCK = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.S)
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


def badges(repo: str, ref: str, path: str) -> str:
    """Markdown for two badges that open a notebook, given by its path in the repository."""
    colab = f"https://colab.research.google.com/github/{repo}/blob/{quote(ref)}/{quote(path)}"
    binder = f"https://mybinder.org/v2/gh/{repo}/{quote(ref, safe='')}?urlpath=lab/tree/{quote(path)}"
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})\n"
        f"[![Open in Binder](https://mybinder.org/badge_logo.svg)]({binder})"
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
    new = block("\n" + badges(repo, ref, f"notebooks/{name}") + "\n")
    if BLOCK.search(source):
        source = BLOCK.sub(lambda _: new, source, count=1)
    else:
        heading, _, rest = source.partition("\n")
        source = f"{heading}\n\n{new}\n\n{rest.lstrip()}".rstrip("\n")
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
    new = block(f"{badges(repo, ref, f'notebooks/{first}')}\n\nFetch the course:\n\n```sh\n{fetch}\n```\n\nThere:")
    return BLOCK.sub(lambda _: new, text)


def publish(repo: str, ref: str, root: Path = ROOT) -> list[Path]:
    """Write the address everywhere; returns the files that changed. On an error none has."""
    require_address(repo, ref)
    notebooks = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    if not notebooks:
        raise PublishError(f"There are no lessons in {root / 'notebooks'}")
    readme = root / "README.md"
    new = {path: publish_notebook(path.read_text(encoding="utf-8"), path.name, repo, ref) for path in notebooks}
    new[readme] = publish_readme(readme.read_text(encoding="utf-8"), repo, ref, notebooks[0].name)
    changed = [path for path, text in new.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        write(path, new[path])
    return changed


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        changed = publish(*arguments)
    except PublishError as problem:
        print(f"Nothing was written. {problem}", file=sys.stderr)
        return 2
    for path in changed:
        print(f"written: {path.relative_to(ROOT)}")
    repo, ref = arguments
    print(f"{len(changed)} files changed: {address(repo)}, {ref}")
    print(f"Readers get what {ref} has there: commit this, tag or branch it as {ref}, and push it.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
