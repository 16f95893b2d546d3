"""`python -m bench`: what it measures, prints and writes, and how it ends where something stops it."""

import json
import os
import re

import pytest
import torch

import kernels
from bench import measuring, operations
from tests.bench.setting import TINY, made_up, on_a_gpu, run
from utils.cuda.common.diagnostics import CompileError
from utils.lesson import figures

pytestmark = pytest.mark.usefixtures("on_the_engine")


def spoil(monkeypatch, group, **changes):
    """The first operation of a group, changed and alone."""
    (operation, *_) = operations.GROUPS[group].operations(TINY[group])
    operation = operation._replace(**changes)
    monkeypatch.setitem(operations.GROUPS, group, operations.GROUPS[group]._replace(operations=lambda _: [operation]))


@pytest.mark.parametrize("group", TINY)
def test_a_group_alone_is_measured_and_kept_nowhere(monkeypatch, tmp_path, capsys, group):
    before = sorted(tmp_path.rglob("*"))
    assert run(monkeypatch, "--only", group) == 0
    out = capsys.readouterr().out
    first = "There is no GPU here: what is timed is the CPU engine, and the figures are kept nowhere."
    heading = operations.GROUPS[group].heading.format("5 x 37" if group == "rows" else f"{TINY[group]:,}")
    assert out.startswith(f"{first}\n\n{group}\n\n| {heading} ")
    assert "Median of 5 samples and, in brackets" in " ".join(out.split()) and ", CUDA" not in out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "name, expected",
    [
        ("square", {"bandwidth": {"copy: PyTorch", "square: PyTorch", "square: 4 bytes per thread"}}),
        ("matmul_narrow", {"narrow": {"reading m alone", "PyTorch, `m @ n`", "copies in flight"}}),
        (
            "matmul_fast",
            {
                "matmul": {"PyTorch, `m @ n`", "a step ahead"},
                "narrow": {"reading m alone", "PyTorch, `m @ n`", "made for large products"},
            },
        ),
    ],
)
def test_an_operation_is_measured_beside_its_peers(monkeypatch, capsys, name, expected):
    assert run(monkeypatch, "--only", name) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^(\w+), for (\w+)$", out, re.MULTILINE) == [(group, name) for group in expected]
    for group, table in zip(expected, out.split(f", for {name}\n")[1:], strict=True):
        rows = re.findall(r"^\| ([^|]+\S) +\|", table, re.MULTILINE)[1:]
        assert len(rows) == len(expected[group]) and all(
            any(row.startswith(k) for k in expected[group]) for row in rows
        )


def test_every_operation_can_be_asked_for_and_no_other_name(monkeypatch, capsys):
    asked = {operation.of for group, size in TINY.items() for operation in operations.GROUPS[group].operations(size)}
    assert asked == {"", *kernels.names()}
    assert run(monkeypatch, "--only", "nonsense") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "'nonsense'" in line and all(name in line for name in (*operations.GROUPS, *kernels.names()))
    with pytest.raises(SystemExit):
        run(monkeypatch, "--only", "square", "--fill", "h200.json")
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize("group", TINY)
@pytest.mark.parametrize("at_first", ["wrong", "right"])
def test_no_figure_of_a_wrong_result(monkeypatch, capsys, group, at_first):
    """Wrong at once, and wrong on the inputs that come after the times were taken."""
    (operation, *_) = operations.GROUPS[group].operations(TINY[group])
    first, second = operation.inputs(), operation.inputs()

    def runs(*inputs):
        expected = operation.run(*inputs)
        return (
            expected
            if at_first == "right" and any(inputs[0] is known[0] for known in (first, second))
            else expected + 2
        )

    made = iter([first, second])
    spoil(monkeypatch, group, run=runs, inputs=lambda: next(made, operation.inputs()))
    assert run(monkeypatch, "--only", group) == 1
    out, err = capsys.readouterr()
    assert "| " not in out and err.startswith(
        f"No time is reported for a wrong result: {operation.name} is wrong by up to "
    )


def stopped(monkeypatch, capsys, *arguments):
    """The exit status, and what it prints to stderr."""
    status = run(monkeypatch, *arguments)
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    "error, status, words",
    [
        (KeyboardInterrupt(), 130, "Stopped: what was not printed is not measured.\n"),
        (CompileError("copy.cu, line 3: no semicolon"), 1, "copy.cu, line 3: no semicolon\n"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried"),
            1,
            "copy: PyTorch, `out.copy_(x)` needs more memory than ",
        ),
    ],
)
def test_what_stops_it_is_said_in_a_line(monkeypatch, capsys, error, status, words):
    def fails(x):
        raise error

    spoil(monkeypatch, "bandwidth", run=fails)
    got, err = stopped(monkeypatch, capsys, "--only", "bandwidth")
    assert got == status and err.startswith(words) and err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"torch": 3}', "\xff"])
def test_a_damaged_file_is_named(monkeypatch, capsys, tmp_path, text):
    (tmp_path / "bench" / "recorded" / "broken.json").write_text(text, encoding="latin-1")
    status, err = stopped(monkeypatch, capsys, "--fill", "broken.json")
    assert status == 1 and "broken.json is damaged (" in err and "`git checkout " in err and err.count("\n") == 1


def test_a_file_that_is_not_there_is_named(monkeypatch, capsys):
    assert stopped(monkeypatch, capsys, "--fill", "x.json") == (1, "there is no x.json in bench/recorded/\n")


def test_what_cannot_be_written_is_found_before_anything_is_measured(fake_gpu, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(measuring, "measured", None)
    monkeypatch.setattr(os, "access", lambda folder, _: folder != figures.FOLDER)
    status, err = stopped(monkeypatch, capsys)
    assert status == 1 and err.startswith(f"nothing can be written to {figures.FOLDER}. To fix it: ")


def measured(group, size, of=""):
    if group == "matmul":
        raise measuring.WrongResult("it is wrong by up to 3")
    return {"size": size, "versions": figures.versions(), "rows": [made_up("all", 0.5, bytes=4)]}


def test_a_group_that_fails_does_not_take_the_figures_of_another(fake_gpu, monkeypatch, tmp_path, capsys):
    """Nor its place in the pages."""
    file = figures.FOLDER / "fake.json"
    old = {"size": 1, "versions": {"torch": "9.8"}, "rows": [made_up("old", 0.5, bytes=4)]}
    file.write_text(json.dumps({"device": "NVIDIA Fake", "narrow": old, "lessons": {"curve": 1}}))
    for group in TINY:
        (tmp_path / "notebooks" / f"{group}.ipynb").write_text(json.dumps({"cells": [{"source": []}]}))
    (tmp_path / "README.md").write_text("<!-- bench:bandwidth -->\n<!-- /bench:bandwidth -->\n")
    on_a_gpu(monkeypatch, total_memory=80e9)
    monkeypatch.setattr(measuring, "measured", measured)
    assert run(monkeypatch) == 1
    kept = json.loads(file.read_text())
    assert kept["bandwidth"]["rows"][0]["name"] == "all" and "matmul" not in kept
    assert kept["bandwidth"]["versions"]["torch"] == "9.9" and kept["narrow"] == old and kept["lessons"] == {"curve": 1}
    assert "torch" not in kept
    assert "NVIDIA Fake, torch 9.9, CUDA 99.0. " in (tmp_path / "README.md").read_text()
    assert "filled in README.md" in capsys.readouterr().out


def test_an_operation_alone_is_written_nowhere(fake_gpu, monkeypatch, tmp_path, capsys):
    on_a_gpu(monkeypatch, total_memory=80e9)
    monkeypatch.setattr(measuring, "measured", measured)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run(monkeypatch, "--only", "square") == 0
    assert "bandwidth, for square" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
