"""The project's files agree with each other, and every notebook keeps the course's form."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # JupyterLab's server brings it

from utils.manage.outputs import as_text, machine_paths, texts

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

from utils.lesson.start import RUNNERS, TORCH, requirements

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
APPENDIX = "90"  # what is not read in order is numbered from here
PYPROJECT = (ROOT / "pyproject.toml").read_text()
PROJECT = tomllib.loads(PYPROJECT)["project"]


def conda(path):
    """An environment file: (what conda installs by name, what pip installs)."""
    listed = yaml.safe_load((ROOT / path).read_text())["dependencies"]
    (pip,) = [entry["pip"] for entry in listed if isinstance(entry, dict)]
    return {entry.split()[0] for entry in listed if isinstance(entry, str)}, pip


# ---------------------------------------------------------------- dependencies


def test_the_lessons_set_up_reads_the_list_as_pip_does():
    assert list(requirements().values()) == PROJECT["dependencies"]


def test_every_dependency_says_why():
    block = re.search(r"^dependencies = \[\n(.*?)^\]", PYPROJECT, re.S | re.M).group(1)
    extras = PROJECT["optional-dependencies"]
    extra = "".join(re.search(rf"^{name} = \[\n(.*?)^\]", PYPROJECT, re.S | re.M).group(1) for name in extras)
    lines = [line for line in (block + extra).splitlines() if line.strip()]
    assert len(lines) == len(PROJECT["dependencies"]) + sum(map(len, extras.values()))
    for line in lines:
        assert re.search(r'", +# .{10,}', line), f"no reason given: {line}"
    for line in block.splitlines():
        assert re.search(r"# .*\b(lesson|lessons)\b", line), f"no lesson named: {line}"


def test_names_that_the_set_up_cell_knows_are_in_the_list():
    assert {*TORCH, *RUNNERS} <= requirements().keys()


def test_conda_environment_installs_this_folder():
    names, pip = conda("environment.yml")
    assert pip == ["-e .[test]"] and "test" in PROJECT["optional-dependencies"]
    assert "cuda-nvcc" in names and not names & requirements().keys()


def test_binder_environment_lists_what_pyproject_lists():
    names, pip = conda(".binder/environment.yml")
    assert pip == [line for name, line in requirements().items() if name not in TORCH]
    assert {"pytorch-cpu", "torchvision", "cuda-nvcc", "cuda-nvrtc", "cuda-bindings", "cuda-nvdisasm"} <= names
    build = ROOT / ".binder" / "postBuild"
    assert build.stat().st_mode & 0o111 and "pip install --no-deps --editable ." in build.read_text()


def test_oldest_torch_is_the_same_everywhere():
    text = (ROOT / ".binder/environment.yml").read_text()
    assert re.search(r"pytorch-cpu (\S+)", text).group(1) == requirements()["torch"].removeprefix("torch")


def test_continuous_integration_runs_the_two_commands():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    runs = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert runs == {"course": ["make course", "make test"], "browser": ["make test-browser"]}
    assert jobs["course"]["strategy"]["matrix"]["python"] == ["3.10", "3.13"]
    run = ROOT / ".ci" / "run"
    assert run.stat().st_mode & 0o111 and run.read_text().rstrip().endswith("exec make test")


def test_pages_are_made_by_make_site():
    jobs = yaml.safe_load((ROOT / ".github/workflows/pages.yml").read_text())["jobs"]
    assert "make site PYTHON=python" in [step.get("run") for step in jobs["build"]["steps"]]
    assert jobs["build"]["steps"][-1]["with"]["path"] == "build/site" and jobs["deploy"]["needs"] == "build"


def test_pre_commit_runs_the_same_tools_as_make_lint():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"
    assert [re.search(r"-m (ruff \w+)", hook["entry"]).group(1) for hook in repo["hooks"]] == [
        "ruff check",
        "ruff format",
    ]


# ---------------------------------------------------------------- README


def test_readme_opens_with_the_newcomers_command_and_the_two():
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    assert first_screen.index("make lab") < first_screen.index("make course") < first_screen.index("make test")


def test_readme_lists_the_lessons_that_exist():
    readme = (ROOT / "README.md").read_text()
    section = readme.split("## Lessons")[1].split("\n## ")[0]
    linked = re.findall(r"\[([^]]+)\]\((notebooks/[^)]+)\)", section)
    assert [path for _, path in linked] == [f"notebooks/{path.name}" for path in NOTEBOOKS]
    for title, path in linked:
        heading = as_text(json.loads((ROOT / path).read_text())["cells"][0]["source"]).splitlines()[0]
        assert heading.lower() == f"# {Path(path).name[:2]} {title}".lower()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name):
    prose = re.sub(r"```.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)", prose):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_readme_names_every_make_target():
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.M)
    phony = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.M)[1].split()
    readme = (ROOT / "README.md").read_text()
    assert sorted(targets) == sorted(phony)
    assert [t for t in targets if t != "help" and f"`make {t}" not in readme] == []


def test_addresses_are_one_and_the_same():
    """Unpublished: no address of the course anywhere. Published: the same one in every place."""
    pattern = re.compile(r'^REPO, REF = "([^"]*)", "([^"]*)"', re.M)
    found = {pattern.search(cell).groups() for path in NOTEBOOKS for cell in code_of(path) if pattern.search(cell)}
    assert len(found) == 1
    ((repo, ref),) = found
    assert bool(repo) == bool(ref)
    readme = (ROOT / "README.md").read_text()
    assert (f"git clone --branch {ref} {repo}.git" if repo else "In the folder of this course, type:") in readme
    assert repo or "git clone" not in readme


# ---------------------------------------------------------------- notebooks


def code_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [as_text(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_the_set_up_cell_fetches_the_course_or_says_what_is_missing(tmp_path):
    """Away from the course, as on Colab: a small repository stands in for the course."""
    far, here = tmp_path / "far", tmp_path / "here"
    start = far / "utils" / "lesson" / "start.py"
    start.parent.mkdir(parents=True)
    start.write_text("def start():\n    print('started')\n")
    here.mkdir()
    git = ["git", "-C", far, "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q", "-b", "v1"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *command], check=True)
    (cell,) = [source for source in code_of(NOTEBOOKS[0]) if "REPO, REF =" in source]

    def run(repo, ref):
        text = re.sub(r"^REPO, REF = .*", f"REPO, REF = {str(repo)!r}, {ref!r}", cell, flags=re.M)
        return subprocess.run([sys.executable, "-I", "-S", "-c", text], cwd=here, capture_output=True, text=True)

    assert "This lesson cannot find the course" in run("", "").stderr
    missing = run(far, "v2").stderr
    assert "v2 not found" in missing and f"ConnectionError: git cannot fetch v2 of {far}" in missing
    assert run(far, "v1").stdout == "started\n" and (here / "course").is_dir()


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def nb(request):
    return json.loads(request.param.read_text(encoding="utf-8"))


def test_there_are_lessons():
    numbers = [path.name[:2] for path in NOTEBOOKS]
    appendices = [number for number in numbers if number >= APPENDIX]
    assert numbers == sorted(set(numbers)) and numbers[0] == "00"
    assert appendices == [f"{int(APPENDIX) + n}" for n in range(len(appendices))] != []


def test_the_set_up_cell_is_the_same_everywhere():
    cells = {}
    for path in NOTEBOOKS:
        (cell,) = [source for source in code_of(path) if "REPO, REF =" in source]
        cells.setdefault(re.sub(r'^REPO, REF = "[^"]*", "[^"]*"', "REPO, REF =", cell, flags=re.M), []).append(
            path.stem
        )
    assert len(cells) == 1, list(cells.values())


def test_the_set_up_cell_is_the_first_code_cell(nb):
    first = next(cell for cell in nb["cells"] if cell["cell_type"] == "code")
    assert "REPO, REF =" in as_text(first["source"]) and first["metadata"]["tags"] == ["nbval-ignore-output"]


def test_one_heading_and_it_comes_first(nb):
    prose = [as_text(cell["source"]) for cell in nb["cells"] if cell["cell_type"] == "markdown"]
    outside_code = [re.sub(r"```.*?```", "", text, flags=re.S) for text in prose]
    headings = [line for text in outside_code for line in re.findall(r"^# .+|<h1", text, re.M)]
    assert len(headings) == 1 and prose[0].startswith("# ") and nb["cells"][0]["cell_type"] == "markdown"


def test_no_cell_is_empty_and_ids_are_unique(nb):
    assert all(as_text(cell["source"]).strip() for cell in nb["cells"])
    ids = [cell["id"] for cell in nb["cells"]]
    assert len(set(ids)) == len(ids)


def test_it_closes_with_summary_exercises_and_next(nb):
    prose = "\n".join(as_text(cell["source"]) for cell in nb["cells"] if cell["cell_type"] == "markdown")
    places = [prose.find(f"\n## {name}") for name in ("What we learned", "Exercises", "Next")]
    if prose[2:4] >= APPENDIX:  # it needs no exercises
        assert -1 < places[0] < places[2]
    else:
        assert -1 < places[0] < places[1] < places[2] and len(re.findall(r"<details>", prose[places[1] :])) >= 2


def test_outputs_are_those_of_one_run_from_top_to_bottom(nb):
    code = [cell for cell in nb["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), "run `make outputs`"
    for cell in code:
        for output in cell["outputs"]:
            assert output.get("execution_count", cell["execution_count"]) == cell["execution_count"]
            assert output["output_type"] != "error" or "raises-exception" in cell["metadata"].get("tags", [])


def test_outputs_name_no_folder_of_a_machine(nb):
    for cell in nb["cells"]:
        for output in cell.get("outputs", []):
            for mapping, name in texts(output):
                assert machine_paths(as_text(mapping[name])) == []


def test_players_are_small_and_have_a_picture_with_words(nb):
    outputs = [output for cell in nb["cells"] for output in cell.get("outputs", [])]
    players = [
        output["data"] for output in outputs if "cuda-player" in as_text(output.get("data", {}).get("text/html", ""))
    ]
    for data in players:
        assert len(json.dumps(data)) < 1_000_000 and {"image/png", "text/plain"} <= data.keys()
        assert re.search(r'<img src="data:image/png;base64,[^"]+" alt="[^"]{30,}"', as_text(data["text/html"]))


def test_most_outputs_are_compared(nb):
    code = [cell for cell in nb["cells"] if cell["cell_type"] == "code"]
    ignored = [cell for cell in code if "nbval-ignore-output" in cell["metadata"].get("tags", [])]
    assert len(ignored) <= len(code) / 2


def test_metadata_is_the_same_everywhere(nb):
    assert nb["metadata"]["language_info"] == {"name": "python"} and nb["metadata"]["kernelspec"]["name"] == "python3"
    assert set(nb["metadata"]) == {"kernelspec", "language_info"}
