"""utils/manage/outputs.py: refreshing the committed outputs."""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from tests.manage.made import lesson, rows
from utils.manage import outputs
from utils.manage.lessons import KERNELSPEC

pytestmark = pytest.mark.usefixtures("environment")


def test_outputs_are_refreshed_in_place(tmp_path, capsys):
    odd = "print(1); import sys; sys.stdout.flush(); print(2)"
    path = lesson(tmp_path, "00_a", odd, "import os\nos.getcwd()", tags=["nbval-ignore-output"])
    ids = [cell["id"] for cell in json.loads(path.read_text())["cells"]]
    bad = lesson(tmp_path, "01_b", "print('see /home/ann/thesis.txt')")
    failing = lesson(tmp_path, "02_c", "1 / 0")
    untouched = bad.read_bytes(), failing.read_bytes()

    assert outputs.main([], tmp_path) == 1
    said = capsys.readouterr().out
    assert rows(said)["00_a"][2] == "passed" and "cell 2: /home/ann/thesis.txt" in said
    assert said.splitlines()[-1].startswith("3 lessons: 1 passed, 2 failed")
    assert (bad.read_bytes(), failing.read_bytes()) == untouched

    nb = json.loads(path.read_text())
    assert nb["metadata"] == {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
    assert [cell["id"] for cell in nb["cells"]] == ids
    assert [cell["metadata"] for cell in nb["cells"][1:]] == [{"tags": ["nbval-ignore-output"]}] * 2
    assert [cell["execution_count"] for cell in nb["cells"][1:]] == [1, 2]
    assert nb["cells"][1]["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["1\n", "2\n"]}]
    assert nb["cells"][2]["outputs"][0]["data"]["text/plain"] == ["'course/notebooks'"]
    assert path.read_text() == json.dumps(nb, indent=1, ensure_ascii=False) + "\n"


def test_normalise_drops_what_changes_from_run_to_run():
    stream = {"output_type": "stream", "name": "stdout"}
    nb = {
        "metadata": {"language_info": {"version": "3.11.7"}, "widgets": {"state": {}}},
        "cells": [
            {"cell_type": "markdown", "metadata": {"collapsed": True}, "source": "# x"},
            {
                "cell_type": "code",
                "metadata": {
                    "execution": {"iopub.status.busy": "2026"},
                    "slideshow": {"slide_type": "-"},
                    "tags": ["t"],
                },
                "outputs": [
                    {**stream, "text": "a"},
                    {**stream, "text": "b\n"},
                    {"output_type": "stream", "name": "stderr", "text": "in /srv/ann/lib/x.py"},
                    {
                        "output_type": "display_data",
                        "data": {
                            "text/html": ["<p>/opt/ann/course", "/utils</p>"],
                            "image/png": "/home/ann/not-a-path==",
                            "application/vnd.jupyter.widget-view+json": {},
                        },
                    },
                ],
            },
        ],
    }
    left = outputs.normalise(nb, {"/opt/ann/course": "course"})
    assert left == ["cell 2: /srv/ann/lib/x.py"]
    assert nb["metadata"] == {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}
    assert [cell["metadata"] for cell in nb["cells"]] == [{}, {"slideshow": {"slide_type": "-"}, "tags": ["t"]}]
    first, second, third = nb["cells"][1]["outputs"]
    assert first["text"] == "ab\n" and second["name"] == "stderr"
    assert third["data"] == {"text/html": "<p>course/utils</p>", "image/png": "/home/ann/not-a-path=="}


def test_places_are_shortened_and_only_whole_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("XDG_CACHE_HOME", "/big/cache")
    short = outputs.places(Path("/home/ann/cuda"))
    text = (
        "/home/ann/cuda/a.py /home/ann/cudas /home/anna /big/cache/x http://x/home/ann /usr/bin/g++ file:///home/ann/q"
    )
    assert outputs.shorten(text, short) == (
        "course/a.py ~/cudas /home/anna ~/.cache/x http://x/home/ann /usr/bin/g++ file://~/q"
    )
    assert outputs.shorten(tempfile.gettempdir() + "/abc", short) == "tmp/abc"
    assert outputs.shorten(f"{sys.prefix}/lib/x", short).startswith(("python/", "course/", "~/"))
    assert "/usr" not in short and "/" not in short


@pytest.mark.parametrize(
    "text, found",
    [
        ("in /home/ann/x.py, line 3", ["/home/ann/x.py"]),
        ("'/Users/ann/x' (/tmp/tmpab1/main.cpp)", ["/Users/ann/x", "/tmp/tmpab1/main.cpp"]),
        ("HOME=/root", ["/root"]),
        ("/usr/bin/g++ /proc/driver/nvidia/version /usr/local/cuda/bin/nvcc", []),
        ("a/home/b ~/tmp/x course/tmp/y 1/work </tmp> https://site/home/ann", []),
    ],
)
def test_machine_paths(text, found):
    assert outputs.machine_paths(text) == found
