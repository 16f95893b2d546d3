"""The rooms of the course: which may import which, how long a file may be, and that each room says what it is for."""

import ast

import pytest

from tests.imports import ROOMS, ROOT, broken, circles, import_map

FOLDERS = ("utils", "kernels", "bench", "tests", "images")
FILES = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
FILES = [path for path in FILES if not {"__pycache__", "build"} & set(path.parts)]
CPP = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"}


def test_arrows_point_down_and_nothing_goes_in_a_circle():
    assert broken(*import_map()) == []


def test_every_room_that_is_listed_is_there():
    assert set(ROOMS) <= set(import_map()[1])


@pytest.fixture
def course(tmp_path):
    """A small course, given as texts by path."""

    def make(**texts):
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return broken(*import_map(tmp_path))

    return make


def test_an_arrow_that_points_up_is_found(course):
    (line,) = course(
        utils__ground__progress="", utils__ground__a="def f():\n    import utils.lesson.b", utils__lesson__b=""
    )
    assert line.startswith("utils/ground imports utils/lesson:")


def test_a_relative_import_and_a_package_count_too(course):
    lines = course(
        utils__ground__a="from ..lesson import b", utils__lesson__b="from utils import ground", utils__ground__c=""
    )
    assert lines[0].startswith("utils/ground imports utils/lesson:")


def test_files_in_a_circle_are_found_within_a_room(course):
    texts = {"utils__lesson__a": "import utils.lesson.b", "utils__lesson__b": "from utils.lesson.c import x"}
    lines = course(**texts, utils__lesson__c="from utils.lesson import a", utils__lesson__d="import utils.lesson.a")
    assert lines == ["files in a circle: utils.lesson.a, utils.lesson.b, utils.lesson.c"]


def test_circles():
    assert circles({"a": {"b"}, "b": set(), "c": {"a"}}) == []
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c", "a"}}) == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize("kind, most", [("course", 400), ("tests", 600)])
def test_no_file_is_too_long_to_read_in_one_sitting(kind, most):
    paths = [path for path in FILES if path.suffix in CPP | {".py"} and (path.parts[0] == "tests") == (kind == "tests")]
    lengths = {path.as_posix(): len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in paths}
    assert lengths and {name: lines for name, lines in lengths.items() if lines > most} == {}


@pytest.mark.parametrize("name", ROOMS)
def test_every_room_says_what_is_in_it(name):
    text = ast.get_docstring(ast.parse((ROOT / name / "__init__.py").read_text(encoding="utf-8")))
    assert text and ("import" in text.lower() or (ROOT / name / "README.md").exists())


def test_images_holds_pictures_only():
    kinds = {path.suffix for path in FILES if path.parts[0] == "images"}
    assert kinds <= {".png", ".jpg", ".gif", ".npz", ".md"}


def test_recorded_figures_are_in_one_place():
    places = ("bench/recorded/", "utils/manage/jupyter/")  # the latter is JupyterLab's: settings, an extension
    assert [path for path in FILES if path.suffix == ".json" and not path.as_posix().startswith(places)] == []
