"""utils/manage/lessons.py: which lessons there are, and which Python runs them."""

import json
import sys

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from tests.manage.made import lesson
from utils.manage import lessons, run

pytestmark = pytest.mark.usefixtures("environment")


def test_lessons_are_chosen_by_number_or_name(tmp_path, capsys):
    paths = [lesson(tmp_path, name) for name in ("00_start", "03_cuda", "10_limit")]
    assert lessons.lessons(root=tmp_path) == paths
    assert lessons.lessons(["3"], tmp_path) == lessons.lessons(["03"], tmp_path) == [paths[1]]
    assert lessons.lessons(["10", "notebooks/03_cuda.ipynb"], tmp_path) == paths[1:]
    assert run.main(["07"], tmp_path) == 2
    said = capsys.readouterr().err
    assert "'07'" in said and "00_start, 03_cuda, 10_limit" in said
    assert lessons.main(tmp_path) == 0
    assert capsys.readouterr().out.splitlines() == ["00  00_start", "03  03_cuda", "10  10_limit"]


def test_the_kernel_is_the_interpreter_in_use(tmp_path, monkeypatch):
    other = tmp_path / "other" / "kernels" / "python3"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text(json.dumps({"argv": ["/bin/false"], "display_name": "x", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "other"))
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] == "/bin/false"
    lessons.use_this_python(tmp_path)
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] == sys.executable
