"""utils/manage/publish.py: address and badges in every notebook and the README, and nothing else."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from utils.manage import publish

ROOT = Path(__file__).resolve().parents[2]
README = f"# Course\n\n{publish.BEGIN}\nIn the folder of this course:\n{publish.END}\n\n```sh\nmake course\n```\n"


def notebook(title, *, set_up='REPO, REF = "", ""  # written by publish\n'):
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": [f"# {title}\n", "\n", "**You will** learn\n"]},
        {
            "cell_type": "code",
            "execution_count": 1,
            "id": "b",
            "metadata": {"tags": ["nbval-ignore-output"]},
            "outputs": [{"name": "stdout", "output_type": "stream", "text": ["3 µs – é\n"]}],
            "source": ["import sys\n", set_up, "print(1)"],
        },
        {"cell_type": "markdown", "id": "c", "metadata": {}, "source": ['REPO, REF = "", "" in prose stays\n']},
    ]
    nb = {"cells": cells, "metadata": {"z": 1, "a": 2}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(nb, indent=1, ensure_ascii=False) + "\n"


@pytest.fixture
def course(tmp_path):
    (tmp_path / "notebooks").mkdir()
    for name in ("00_a", "01_b"):
        (tmp_path / "notebooks" / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")
    (tmp_path / "README.md").write_text(README)
    return tmp_path


def contents(root):
    return {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_addresses_are_written(course):
    changed = publish.publish("ann-b/cuda.course", "v1.0", course)
    assert len(changed) == 5
    nb = json.loads((course / "notebooks" / "01_b.ipynb").read_text())
    first, set_up = "".join(nb["cells"][0]["source"]), "".join(nb["cells"][1]["source"])
    assert first.startswith(f"# 01_b\n\n{publish.BEGIN}\n") and first.endswith(f"{publish.END}\n\n**You will** learn\n")
    assert "https://colab.research.google.com/github/ann-b/cuda.course/blob/v1.0/colab/01_b.ipynb" in first
    assert "https://mybinder.org/v2/gh/ann-b/cuda.course/v1.0?urlpath=lab/tree/lab/01_b.ipynb" in first
    assert 'REPO, REF = "https://github.com/ann-b/cuda.course", "v1.0"  # written by publish\n' in set_up
    readme = (course / "README.md").read_text()
    assert "git clone --branch v1.0 https://github.com/ann-b/cuda.course.git\ncd cuda.course\n" in readme
    assert "/colab/00_a.ipynb" in readme
    assert readme.startswith("# Course\n\n") and readme.endswith("\n\n```sh\nmake course\n```\n")


def test_nothing_else_changes(course):
    before = contents(course)
    publish.publish("ann/cuda", "main", course)
    for name, text in contents(course).items():
        if not name.startswith("notebooks/"):
            continue
        old, new = json.loads(before[name]), json.loads(text)
        for nb in (old, new):
            nb["cells"][0]["source"] = nb["cells"][1]["source"] = None
        assert json.dumps(old) == json.dumps(new)  # order of keys included
        gone = [line for line in before[name].splitlines() if line not in text.splitlines()]
        assert [line.strip() for line in gone] == ['"REPO, REF = \\"\\", \\"\\"  # written by publish\\n",']


def test_again_changes_nothing_and_another_name_replaces_the_first(course):
    publish.publish("ann/cuda", "v1", course)
    once = contents(course)
    assert publish.publish("ann/cuda", "v1", course) == []
    assert contents(course) == once
    publish.publish("bob/course", "v2", course)
    assert "ann/cuda" not in "".join(contents(course).values())
    publish.publish("ann/cuda", "v1", course)
    assert contents(course) == once


def test_copies_for_colab_have_no_outputs_and_absolute_links(course):
    path = course / "notebooks" / "00_a.ipynb"
    links = "[b](01_b.ipynb#end) ![p](../images/p.png) [k](../kernels/copy.cu) [w](https://a.org/b) `x[i](y)` [t](#top)"
    path.write_text(notebook("00_a").replace("in prose stays", links), encoding="utf-8")
    publish.publish("ann/cuda", "v1", course)
    copy = json.loads((course / "colab" / "00_a.ipynb").read_text())
    assert all(cell["outputs"] == [] for cell in copy["cells"] if cell["cell_type"] == "code")
    text = "".join(copy["cells"][2]["source"])
    assert "[b](https://colab.research.google.com/github/ann/cuda/blob/v1/colab/01_b.ipynb#end)" in text
    assert "![p](https://raw.githubusercontent.com/ann/cuda/v1/images/p.png)" in text
    assert "[k](https://github.com/ann/cuda/blob/v1/kernels/copy.cu)" in text
    assert "[w](https://a.org/b)" in text and "[t](#top)" in text and "`x[i](y)`" in text
    assert "[b](01_b.ipynb#end)" in path.read_text()  # GitHub and JupyterLab follow the links of the lesson itself


def test_copies_for_colab_fold_what_the_lesson_folds(course):
    path = course / "notebooks" / "00_a.ipynb"
    path.write_text(
        notebook("00_a").replace('"tags":', '"jupyter": {"source_hidden": true}, "tags":'), encoding="utf-8"
    )
    publish.publish("ann/cuda", "v1", course)
    views = {}
    for name in ("00_a", "01_b"):
        copy = json.loads((course / "colab" / f"{name}.ipynb").read_text())
        views[name] = [cell["metadata"].get("cellView") for cell in copy["cells"]]
    assert views == {"00_a": [None, "form", None], "01_b": [None, None, None]}
    assert "cellView" not in path.read_text()


def test_a_copy_of_a_lesson_that_is_gone_goes_too(course):
    publish.publish("ann/cuda", "v1", course)
    (course / "notebooks" / "01_b.ipynb").unlink()
    assert publish.publish("ann/cuda", "v1", course) == [course / "colab" / "01_b.ipynb"]
    assert [path.name for path in (course / "colab").iterdir()] == ["00_a.ipynb"]


def test_undo_restores_every_file(course, capsys):
    before = contents(course)
    before["README.md"] = before["README.md"].replace("course:", "course, type:")
    assert publish.main(["ann/cuda", "v1"], course) == 0
    assert publish.main(["--undo"], course) == 0
    assert contents(course) == before and not (course / "colab").exists()
    capsys.readouterr()
    assert publish.main(["--undo"], course) == 0
    assert capsys.readouterr().out.startswith("Nothing to do")


def test_nothing_changed_is_said(course, capsys):
    publish.main(["ann/cuda", "v1"], course)
    capsys.readouterr()
    assert publish.main(["ann/cuda", "v1"], course) == 0
    assert capsys.readouterr().out == "Nothing to do: the course has this address.\n"


@pytest.mark.parametrize(
    "repo, ref",
    [
        ("", "v1"),
        ("cuda", "v1"),
        ("ann/", "v1"),
        ("/cuda", "v1"),
        ("ann/cuda/x", "v1"),
        ("https://github.com/ann/cuda", "v1"),
        ("-ann/cuda", "v1"),
        ("ann--b/cuda", "v1"),
        ("ann/cu da", "v1"),
        ("ann/cuda.git", "v1"),
        ("ann/..", "v1"),
        ("ann/cuda", ""),
        ("ann/cuda", "a b"),
        ("ann/cuda", "a..b"),
        ("ann/cuda", "-x"),
        ("ann/cuda", "x/"),
        ("ann/cuda", "x.lock"),
        ("ann/cuda", 'x", "y'),
        ("ann/cuda", "0123456789abcdef0123456789abcdef01234567"),
    ],
)
def test_impossible_names_are_refused_before_anything_is_written(course, repo, ref):
    before = contents(course)
    with pytest.raises(publish.PublishError) as problem:
        publish.publish(repo, ref, course)
    assert ("REPO" if ref == "v1" else "REF") in problem.value.wrong
    assert contents(course) == before


def test_a_branch_with_a_slash(course):
    publish.publish("ann/cuda", "draft/one", course)
    text = (course / "notebooks" / "00_a.ipynb").read_text()
    assert "/gh/ann/cuda/draft%2Fone?" in text and "/blob/draft/one/" in text


def test_a_notebook_or_readme_without_its_place_stops_everything(course):
    odd = course / "notebooks" / "01_b.ipynb"
    for text, said in [
        (notebook("x", set_up="pass\n"), "0 cells"),
        (notebook("x").replace("# x", "x"), "heading"),
    ]:
        odd.write_text(text)
        before = contents(course)
        with pytest.raises(publish.PublishError, match=said):
            publish.publish("ann/cuda", "v1", course)
        assert contents(course) == before
    odd.write_text(notebook("x"))
    (course / "README.md").write_text("# Course\n")
    with pytest.raises(publish.PublishError, match="README"):
        publish.publish("ann/cuda", "v1", course)


def test_this_course_can_be_published(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copy(ROOT / "README.md", tmp_path)
    lessons = sorted((tmp_path / "notebooks").glob("*.ipynb"))
    changed = publish.publish("some-owner/some-name", "v9.9", tmp_path)
    copies = [tmp_path / "colab" / path.name for path in lessons]
    assert set(changed) == {*lessons, *copies, tmp_path / "README.md"}
    for path in [*lessons, *copies]:
        nb = json.loads(path.read_text())
        (set_up,) = ["".join(c["source"]) for c in nb["cells"] if "REPO, REF =" in "".join(c["source"])]
        compile(set_up, path.name, "exec")
        assert 'REPO, REF = "https://github.com/some-owner/some-name", "v9.9"' in set_up
    assert publish.publish("some-owner/some-name", "v9.9", tmp_path) == []
    publish.withdraw(tmp_path)
    for path in [*lessons, tmp_path / "README.md"]:
        assert path.read_text() == (ROOT / path.relative_to(tmp_path)).read_text()


def test_command_line(tmp_path):
    command = [sys.executable, "-E", "-s", "-S", "-m", "utils.manage.publish"]  # standard library only
    done = subprocess.run([*command, "no-slash", "v1"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "Nothing was written" in done.stderr and "'no-slash'" in done.stderr
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "python3 -m utils.manage.publish OWNER/NAME REF" in done.stderr
