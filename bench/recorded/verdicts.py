"""Plain nvcc's verdicts on the snippets of tests/verdicts:  python -m bench.recorded.verdicts

Compiles each with `nvcc -c -arch=sm_90`, in nvcc's own default language, and writes verdicts.json: whether nvcc accepts
it, and otherwise the first error. Needs nvcc, no GPU, and some minutes. With `--check` nothing is written, and what
differs from the recorded verdicts is printed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.verdicts import SNIPPETS
from utils.cuda.common.toolchain import cuda_home, nvcc_release
from utils.ground.system import write

__all__ = ["read"]

RECORDED = Path(__file__).with_suffix(".json")


def read() -> dict[str, dict]:
    """The recorded verdicts by 'theme/name': {'accepted': bool, 'error': str, 'text': the hash of the snippet}."""
    return json.loads(RECORDED.read_text())["verdicts"]


def verdict(snippet) -> dict:
    """Ask nvcc about one snippet."""
    nvcc = str(cuda_home() / "bin" / "nvcc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "snippet.cu"
        source.write_text(snippet.text, encoding="utf-8")
        command = [nvcc, "-c", "-arch=sm_90", str(source), "-o", f"{folder}/snippet.o"]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "TMPDIR": folder, "LC_ALL": "C"}
        )
    log = done.stdout + done.stderr
    errors = re.findall(r"(?:error|fatal)[^:\n]*: (.*)", log) or log.strip().splitlines()[:1]
    error = errors[0].replace(str(source), "snippet.cu") if done.returncode else ""
    error = re.sub(r"/\S*/include/", "", error)  # where nvcc's headers are on this machine
    return {"accepted": not done.returncode, "error": error, "text": snippet.hash}


def main() -> int:
    """Record, or check what is recorded; 1 if that differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.recorded.verdicts", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare with what is recorded")
    check = parser.parse_args().check
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip((s.key for s in SNIPPETS), pool.map(verdict, SNIPPETS), strict=True))
    if check:
        before = read()
        changed = sorted(key for key in found.keys() | before.keys() if found.get(key) != before.get(key))
        print("\n".join(f"{key}: recorded {before.get(key)}, now {found.get(key)}" for key in changed) or "no change")
        return 1 if changed else 0
    made = {"nvcc": nvcc_release(cuda_home()), "verdicts": found}
    write(RECORDED, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    accepted = sum(entry["accepted"] for entry in found.values())
    print(f"{len(found)} snippets: nvcc accepts {accepted} and rejects {len(found) - accepted}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
