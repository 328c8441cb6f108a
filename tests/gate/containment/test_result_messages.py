"""What a result says: one line for a folder's protected files, and Remit's own line for a read-only file system."""

from pathlib import Path

import pytest

from remit.adapters.payload import has_read_only_error
from remit.core.decision import Finding
from remit.gate.containment.messages import describe_protected_places, describe_result
from remit.workspace.sandbox.containment import CommandEnd

ENDED = CommandEnd(0)
READ_ONLY = (
    "OSError: [Errno 30] Read-only file system: '.git/hooks/pre-commit'",
    "An unexpected error has occurred: [Errno 30] Nur-Lese-Dateisystem",
    "warning: unable to unlink '.git/info/refs_x': Read-only file system",
    "open x: read-only file system",
    "Error: EROFS: read-only file system, open 'x'",
    "Read-only file system @ rb_sysopen - x (Errno::EROFS)",
    "touch: 'x' kann nicht berührt werden: Das Dateisystem ist nur lesbar",
    "touch: impossible: Système de fichiers accessible en lecture seulement",
    "touch: Sistema de archivos de solo lectura",
    "touch: 'x': 読み込み専用ファイルシステムです",
    "called `Result::unwrap()`: Os { code: 30, kind: ReadOnlyFilesystem } (os error 30)",
    "sqlite3.OperationalError: attempt to write a readonly database",
)
OTHERS = ("Permission denied", "No space left on device", "errno 300", "the file is read-only", "EROFSX", "")


@pytest.mark.parametrize("text", READ_ONLY)
def test_a_read_only_file_system_is_known_in_any_spelling(text: str) -> None:
    assert has_read_only_error(f"before\n{text}\nafter")
    assert has_read_only_error({"no": "text"}, [{"text": text}])


@pytest.mark.parametrize("text", OTHERS)
def test_other_errors_are_none(text: str) -> None:
    assert not has_read_only_error(text)


def protected(path: str, why: str = "it is git's own") -> Finding:
    return Finding("contained", "PROTECTED_PATH", f"{path} is protected: {why}.", path=path)


def test_protected_files_of_a_folder_are_one_line() -> None:
    hooks = [protected(f"src/app/.git/hooks/h{number}.sample") for number in range(25)]
    others = [protected(".claude/a.json", "it steers an agent"), protected("pkg/.git/HEAD"), protected(".mcp.json")]
    said = describe_result(ENDED, (), [*hooks, *others], Path("/aside")).splitlines()
    assert said[1:-1] == [
        "  src/app/.git/: 25 files, each is protected: it is git's own.",
        "  .claude/a.json: .claude/a.json is protected: it steers an agent.",
        "  pkg/.git/HEAD: pkg/.git/HEAD is protected: it is git's own.",
        "  .mcp.json: .mcp.json is protected: it is git's own.",
    ]


@pytest.mark.parametrize(
    "command", ["pre-commit install", "npx husky install", "git lfs install", "lefthook install -f"]
)
def test_a_failed_installer_of_hooks_hears_what_it_met(command: str) -> None:
    assert ".git/hooks was read-only" in describe_protected_places(command, ())
    assert describe_protected_places("npm install; echo pre-commit", ()) == ""
