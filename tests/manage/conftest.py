import pytest


@pytest.fixture
def environment(monkeypatch):
    """Give back what running lessons sets in the environment."""
    for name in ("COURSE_HEADLESS", "JUPYTER_PATH", "MPLBACKEND"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("MPLBACKEND")
