"""Law 8: the client denies when it can reach nobody."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import remit_hook
from remit.adapters import settings

CLIENT = Path(remit_hook.__file__).with_name("__main__.py")


def knock(
    python: Path | str, *words: str, client: Path = CLIENT, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the client with that interpreter."""
    return subprocess.run(
        [str(python), "-I", "-S", "-E", str(client), *words], input=b"{}", capture_output=True, check=False
    )


@pytest.fixture
def lonely(tmp_path: Path) -> Path:
    """A Python that has no Remit."""
    base = Path(sys.base_prefix) / "bin" / "python3"
    if not base.exists():
        pytest.skip(f"NOT TESTED: {base} is not there, so no interpreter without Remit is at hand")
    return base


@pytest.mark.parametrize(("event_class", "refuses"), [("pre", True), ("post", True), ("note", True)])
def test_without_remit_nobody_answers_and_the_exit_code_says_so(lonely: Path, event_class: str, refuses: bool) -> None:
    done = knock(lonely, "claude-code", event_class)
    assert (done.returncode != 0) == refuses, "the settings' fallback then decides, and it denies on pre alone"
    assert done.stdout == b""


def test_a_client_that_is_missing_fails(tmp_path: Path) -> None:
    assert knock(sys.executable, "claude-code", "pre", client=tmp_path / "gone.py").returncode != 0


@pytest.mark.parametrize(
    "words", [(), ("claude-code",), ("a", "b", "c", "d"), ("unknown", "pre"), ("claude-code", "x")]
)
def test_words_that_nobody_understands_are_refused(words: tuple[str, ...]) -> None:
    assert knock(sys.executable, *words).returncode == 2


def test_an_unknown_agent_is_never_refused_after_the_deed() -> None:
    assert knock(sys.executable, "unknown", "post").returncode == 0


def test_the_client_imports_c_modules_only() -> None:
    program = (
        "import sys; before = set(sys.modules); "
        f"exec(compile(open({str(CLIENT)!r}).read(), 'client', 'exec'), {{'__name__': 'client'}}); "
        "print([n for n in set(sys.modules) - before"
        " if str(getattr(sys.modules[n], '__file__', None) or '').endswith('.py')])"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_the_fallback_of_the_settings_denies_only_where_remit_enforces(tmp_path: Path) -> None:
    hooks: Any = settings("claude-code", str(tmp_path / "missing"))["hooks"]
    for folder, marker, expected in (("plain", False, 0), ("observing", False, 0), ("enforcing", True, 2)):
        root = tmp_path / folder
        root.mkdir()
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        if marker:
            (root / ".git" / "remit").mkdir()
            (root / ".git" / "remit" / "enforce").touch()
        for event in ("PreToolUse", "PostToolUse", "Stop", "UserPromptSubmit"):
            command = hooks[event][0]["hooks"][0]["command"]
            done = subprocess.run(["sh", "-c", command], cwd=root, capture_output=True, check=False)
            assert done.returncode == (expected if event == "PreToolUse" else 0), (folder, event, done)
