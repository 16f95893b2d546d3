"""What the README claims holds: its code prints what it shows, its figures are those of the recorded runs."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


def test_the_traced_kernel_prints_what_is_shown(capsys):
    code, shown = re.search(
        r"```python\n(import torch\nfrom utils import compile.*?)```\n\n```text\n(.*?)```", README, re.S
    ).groups()
    exec(code, {})
    assert capsys.readouterr().out == shown


def test_the_figures_about_counts_and_bugs():
    launches = json.loads((ROOT / "bench/recorded/nsight.json").read_text())["launches"]
    differences = json.loads((ROOT / "bench/recorded/nsight_differences.json").read_text()).values()
    differing = [d for d in differences if any(count.startswith("global") for count in d["counts"])]
    found = json.loads((ROOT / "bench/recorded/corpus.json").read_text())["cases"]
    bugs = [case for name, case in found.items() if not name.startswith("clean_")]
    engine = sum(case["engine"]["bug"]["result"] == "found" for case in bugs)
    tools = sum(any(case[tool]["bug"]["result"] in ("found", "elsewhere") for tool in SANITIZERS) for case in bugs)
    for text in (
        f"of [{len(launches)} launches on an H200](bench/recorded/nsight.md), {len(launches) - len(differing)} agree",
        f"Of [{len(bugs)} planted bugs](bench/recorded/corpus.md) the trace finds {engine}, and",
        f"compute-sanitizer together find {tools}.",
    ):
        assert text in README
