"""utils/manage/install.py and the Makefile: what they refuse, what they reuse, what they never treat as finished."""

import ast
import fcntl
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from utils.ground.errors import CourseError

ROOT = Path(__file__).resolve().parents[2]
#: What runs before there is a .venv, perhaps under a Python that is too old.
SOURCES = [
    "utils/__init__.py",
    "utils/ground/__init__.py",
    "utils/ground/errors.py",
    "utils/ground/system.py",
    "utils/manage/__init__.py",
    "utils/manage/install.py",
]


@pytest.fixture
def course(tmp_path):
    """A copy of what the set-up reads, in a path with a space."""
    root = tmp_path / "my course"
    for name in (*SOURCES, "pyproject.toml", "Makefile"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    return root


@pytest.fixture
def install(course):
    """The copy's own module, so that its folder is the copy's."""
    spec = importlib.util.spec_from_file_location("install_of_copy", course / "utils" / "manage" / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.ROOT == course
    return module


@pytest.fixture
def only(tmp_path, monkeypatch):
    """Make PATH hold nothing but the programs given."""

    def path_of(**programs):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for name, text in programs.items():
            script(folder / name.replace("_", "-").replace("plus", "+"), text)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.delenv("CXX", raising=False)
        return folder

    return path_of


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def fake_venv(root, pip_status=0, version="3 11 7"):
    """An environment whose Python only says its version and writes down what pip is asked to do."""
    log, status = root / "pip.log", root / "pip.status"
    status.write_text(str(pip_status))
    (root / ".venv").mkdir(exist_ok=True)
    (root / ".venv" / "pyvenv.cfg").write_text("")
    script(
        root / ".venv" / "bin" / "python",
        f"""case "$*" in
  *version_info*) echo {version} ;;
  *"import torch"*) echo 2.11.0 ;;
  "-m pip --version") ;;
  "-m pip install"*) echo "$*" >> "{log}"; exit "$(cat "{status}")" ;;
  *) exit 9 ;;
esac
""",
    )
    return lambda: log.read_text().splitlines() if log.exists() else []


def stopped(call, *arguments, **named):
    with pytest.raises(CourseError) as refusal:
        call(*arguments, **named)
    return str(refusal.value)


# ---------------------------------------------------------------- what the machine must have


@pytest.mark.parametrize("name", SOURCES)
def test_an_old_python_can_read_and_import_the_file(name):
    tree = ast.parse((ROOT / name).read_text(), feature_version=(3, 6))
    imported = {module.name for node in ast.walk(tree) if isinstance(node, ast.Import) for module in node.names} | {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    for module in imported:
        ours = module in ("utils.ground", "utils.ground.errors", "utils.ground.system")
        assert ours or module.partition(".")[0] in sys.stdlib_module_names, module
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.NamedExpr | ast.Match)]
    annotated = [node for node in ast.walk(tree) if getattr(node, "annotation", None) or getattr(node, "returns", None)]
    assert not annotated and "__future__" not in imported, "an old Python evaluates annotations, such as `int | None`"


def old_pythons():
    return [path for minor in range(6, 10) if (path := shutil.which(f"python3.{minor}")) and starts(path)]


def starts(python):
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


@pytest.mark.skipif(not old_pythons(), reason="needs a Python from 3.6 to 3.9")
def test_an_old_python_says_that_it_is_too_old(course, tmp_path):
    for python in old_pythons():
        command = [python, "-m", "utils.manage.install"]
        done = subprocess.run(command, cwd=course, capture_output=True, text=True, env={"PATH": str(tmp_path)})
        assert done.returncode == 1 and done.stderr.startswith("set-up stopped: ") and "3.10 or newer" in done.stderr
        assert done.stderr.endswith("Then run the same command again.\n")


def test_a_newer_python_beside_an_old_one_is_found(install, only):
    folder = only(**{"python3.12": "echo 3 12 1", "python3.13": "exit 127", "python3.11": "echo 3 11 7"})
    assert install.newer_python() == str(folder / "python3.12")  # 3.13 is there by name and does not start
    assert install.newer_python(search=str(folder / "empty")) is None


def test_debian_without_venv_names_the_command(install, only, monkeypatch):
    monkeypatch.setattr(install.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else name)
    only(apt="exit 0")
    message = stopped(install.require_venv_module)
    assert "sudo apt install python{}.{}-venv".format(*sys.version_info[:2]) in message and "ensurepip" in message
    only()
    Path(os.environ["PATH"], "apt").unlink()
    assert "apt" not in stopped(install.require_venv_module)


def test_nothing_is_installed_where_a_build_would_fail(install, only, course):
    only(apt="exit 0")
    asked = fake_venv(course)
    assert "To fix it: sudo apt install g++" in stopped(install.set_up)
    only(gplusplus="exit 1")
    assert "g++: cannot build a C++20 library" in stopped(install.set_up)
    assert asked() == [] and not install.finished()


def test_disk_space(install, monkeypatch, tmp_path):
    space = {"root": 8e9, "scratch": 50e9, "cache": 50e9}
    monkeypatch.setattr(install.system, "free_space", lambda folder: space[Path(folder).name])
    plan = [tmp_path / name for name in space]
    message = stopped(install.plan_space, *plan)
    assert "8.0 GB are free" in message and str(tmp_path / "root") in message and "free 1.5 GB" in message
    space["root"] = 50e9
    assert install.plan_space(*plan) == (None, True)
    space["scratch"] = 1e9  # a small /tmp: pip unpacks in the course's own build folder instead
    assert install.plan_space(*plan) == (install.ROOT / "build" / "tmp", True)
    space["cache"] = 1e9
    assert install.plan_space(*plan)[1] is False


# ---------------------------------------------------------------- the environment


@pytest.fixture
def ready_machine(install, monkeypatch):
    monkeypatch.setattr(install, "plan_space", lambda: (None, True))
    monkeypatch.setattr(install.system, "require_compiler", lambda: None)
    return install


def test_second_runs_do_nothing(ready_machine, course, capfd):
    asked = fake_venv(course)
    ready_machine.set_up()
    assert any("--editable .[test]" in line for line in asked())
    assert "ready: Python 3.11.7, torch 2.11.0" in capfd.readouterr().out
    before, start = asked(), time.process_time()
    ready_machine.set_up()
    assert asked() == before and time.process_time() - start < 1
    assert capfd.readouterr().out == ""


def test_an_unfinished_install_is_not_taken_for_a_finished_one(ready_machine, course):
    asked = fake_venv(course, pip_status=1)
    message = stopped(ready_machine.set_up)
    assert "pip install" in message and "network" in message
    assert not ready_machine.finished()
    (course / "pip.status").write_text("0")
    before = len(asked())
    ready_machine.set_up()
    assert len(asked()) > before and ready_machine.finished()


def test_an_upgrade_that_breaks_off_takes_the_old_stamp_with_it(ready_machine, course):
    fake_venv(course)
    ready_machine.set_up()
    old = (course / "pyproject.toml").read_text()
    (course / "pyproject.toml").write_text(old + "\n")
    (course / "pip.status").write_text("1")
    stopped(ready_machine.set_up)
    (course / "pyproject.toml").write_text(old)  # back to what the old stamp was for
    assert not ready_machine.finished()


def test_what_a_stamp_depends_on(install, course):
    fake_venv(course)
    assert not install.finished()
    stamp = course / ".venv" / "course-installed"
    stamp.write_text(install.key((3, 11, 7)))
    assert install.finished()
    fake_venv(course, version="3 12 1")
    assert not install.finished()
    fake_venv(course)
    assert install.finished()
    moved = course.with_name("moved")
    course.rename(moved)
    assert not install.finished(moved / ".venv", moved)  # .venv has the old path written into it
    moved.rename(course)
    assert install.finished()
    (course / "pyproject.toml").write_text("[project]\n")
    assert not install.finished()


def test_a_dead_python_in_the_environment_is_noticed(install, course):
    fake_venv(course)
    (course / ".venv" / "course-installed").write_text(install.key((3, 11, 7)))
    python = course / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(course / "gone" / "python3")
    assert not install.finished() and not install.works()


def test_half_an_environment_is_made_anew(install, course):
    (course / ".venv" / "bin").mkdir(parents=True)
    (course / ".venv" / "bin" / "python").symlink_to("/nowhere/python3")
    assert not install.works()
    install.make_venv()
    assert install.works()


def test_a_folder_that_is_no_environment_is_left_alone(install, course):
    (course / ".venv").mkdir()
    (course / ".venv" / "thesis.txt").write_text("years of work")
    assert f"mv '{course / '.venv'}'" in stopped(install.make_venv)
    assert (course / ".venv" / "thesis.txt").read_text() == "years of work"


def test_the_command_prints_a_refusal_and_what_comes_then(install, monkeypatch):
    for refusal, said in [
        (install.SetUpError("full", "make room"), "full. To fix it: make room\nThen run the same command again."),
        (CourseError("this is an old Mac"), "this is an old Mac"),
    ]:

        def refuse(refusal=refusal):
            raise refusal

        monkeypatch.setattr(install, "set_up", refuse)
        with pytest.raises(SystemExit) as end:
            install.main([])
        assert end.value.code == f"set-up stopped: {said}"
    with pytest.raises(SystemExit) as end:
        install.main(["--needs"])
    assert end.value.code.startswith("usage: ")


def test_two_set_ups_wait_for_each_other(ready_machine, course, capfd):
    asked = fake_venv(course)
    lock = (course / "pyproject.toml").open()
    fcntl.flock(lock, fcntl.LOCK_EX)
    worker = threading.Thread(target=ready_machine.set_up)
    worker.start()
    worker.join(0.5)
    assert worker.is_alive() and asked() == []
    lock.close()
    worker.join(20)
    assert not worker.is_alive() and asked()
    assert "another set-up" in capfd.readouterr().out


def test_pip_ignores_settings_that_would_put_packages_elsewhere(ready_machine, course, monkeypatch):
    monkeypatch.setenv("PIP_USER", "1")
    seen = []
    monkeypatch.setattr(
        ready_machine.subprocess, "run", lambda *a, **k: seen.append(k["env"]) or subprocess.CompletedProcess(a, 0)
    )
    ready_machine.pip(["x"], scratch=course / "build" / "tmp")
    assert "PIP_USER" not in seen[0] and seen[0]["TMPDIR"] == str(course / "build" / "tmp")
    assert not (course / "build" / "tmp").exists()


# ---------------------------------------------------------------- PYTHON=..., make


def test_what_a_given_python_lacks_is_named(course):
    bare = [sys.executable, "-E", "-s", "-S", "-m", "utils.manage.install", "--needs"]
    done = subprocess.run([*bare, "test"], cwd=course, capture_output=True, text=True)
    assert done.returncode == 1 and not (course / ".venv").exists()
    for name in ("torch", "nbclient", "pytest", "ruff", "make test", sys.executable):
        assert name in done.stderr
    assert subprocess.run([*bare, "reset"], cwd=course, capture_output=True).returncode == 0  # needs nothing but Python


def make(root, *arguments, path=None):
    # what a make around this test run has set must not reach this one
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "PYTHON")}
    command = [shutil.which("make"), "--no-print-directory", *arguments]
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, env={**env, **({"PATH": path} if path else {})}
    )


def test_make_alone_lists_every_target(course):
    done = make(course)
    assert done.returncode == 0
    for target in ("course", "test", "lab", "reset", "lint", "outputs", "doctor", "publish", "clean"):
        assert f"  {target} " in done.stdout


@pytest.mark.parametrize(
    "target", ["course", "test", "lab", "reset", "lint", "outputs", "doctor", "site", "slides", "present"]
)
def test_a_given_python_does_everything_and_nothing_is_installed(course, target):
    calls = course / "calls.log"
    script(course / "some python", f'echo "$*" >> "{calls}"\n')
    done = make(course, target, f"PYTHON={course / 'some python'}", "LESSON=03")
    assert done.returncode == 0, done.stderr
    first, *others = calls.read_text().splitlines()
    assert first == f"-m utils.manage.install --needs {target}"
    assert others and not any("install" in line for line in others)
    assert not (course / ".venv").exists()


def test_without_a_given_python_each_target_sets_up_first(course, tmp_path):
    fake_venv(course)
    calls = tmp_path / "calls.log"
    for name in ("python3", ".venv/bin/python"):
        where = tmp_path / "bin" / name if name == "python3" else course / name
        script(where, f'echo "{name} $*" >> "{calls}"\n')
    done = make(course, "test", path=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    lines = calls.read_text().splitlines()
    assert lines[0] == "python3 -m utils.manage.install"
    assert all(line.startswith(".venv/bin/python -m ") for line in lines[1:])
    ran = " / ".join(lines)
    for part in ("ruff check", "ruff format --check", "-m not alone tests", "-m alone tests", "--nbval"):
        assert part in ran
    assert "--nbval-lax" not in ran and ran.count("--ignore tests/browser") == 2


def test_make_test_ends_with_the_status_of_what_failed(course):
    for failing in ("*ruff*check*", "*format*", "*not?alone*", "*-m?alone*", "*nbval*"):
        script(course / "py", f'case "$*" in {failing}) exit 3 ;; esac\n')
        assert make(course, "test", "PYTHON=./py").returncode != 0, failing


@pytest.mark.parametrize("state", ["missing", "dangling", "broken", "working"])
def test_the_doctor_comes_without_an_installation(course, tmp_path, state):
    own, python3 = course / ".venv" / "bin" / "python", tmp_path / "bin" / "python3"
    if state == "dangling":
        own.parent.mkdir(parents=True)
        own.symlink_to("/nowhere/python3")
    elif state != "missing":
        script(own, "echo own; echo $*" if state == "working" else "exit 1")
    script(python3, "echo python3; echo $*")
    done = make(course, "doctor", path=f"{python3.parent}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    name = "own" if state == "working" else "python3"
    assert done.stdout == f"{name}\n-m utils.manage.install --needs doctor\n{name}\n-m utils.manage.doctor\n"


def test_no_python_at_all(course, tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("sh", "make"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    for target in ("course", "doctor"):
        done = make(course, target, path=str(tmp_path / "bin"))
        assert done.returncode != 0 and "Python 3.10 or newer" in done.stderr
