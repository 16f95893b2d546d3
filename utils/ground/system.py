"""Files and processes of this machine. Standard library only: the installation runs on it before there is a .venv."""

import os
import tempfile
from pathlib import Path


def write(path, text):
    """Write a file in one step: an interruption leaves the old one or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False)
    try:
        with file:
            file.write(text)
        os.chmod(file.name, path.stat().st_mode if path.exists() else 0o644)
        os.replace(file.name, path)
    finally:
        Path(file.name).unlink(missing_ok=True)
