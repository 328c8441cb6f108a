"""What the arguments of a tool that no agent's row names tell about it."""

from typing import Any

import pytest

from remit.adapters.unlisted_tools import UnlistedCall, classify_unlisted

NAMED_PATHS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"path": "src/app.py"}, ("src/app.py",)),
    ({"file_path": "/p/a", "content": "x"}, ("/p/a",)),
    ({"relative_path": "a"}, ("a",)),
    ({"targetFile": "a b.txt"}, ("a b.txt",)),
    ({"absolutePath": "/p/a"}, ("/p/a",)),
    ({"source": "a.txt", "destination": "b.txt"}, ("a.txt", "b.txt")),
    ({"src": "a", "dst": "b"}, ("a", "b")),
    ({"edits": [{"path": "a", "newText": "x"}, {"path": "b"}]}, ("a", "b")),
    ({"paths": ["a", "b"]}, ("a", "b")),
    ({"files": {"src/a.py": "text", "b.txt": "text"}}, ("src/a.py", "b.txt")),
    ({"request": {"options": {"notebook_path": "n.ipynb"}}}, ("n.ipynb",)),
    ({"uri": "file:///p/a%20b"}, ("/p/a b",)),
    ({"url": "file://localhost/p/a"}, ("/p/a",)),
    ({"where": "FILE:///etc/passwd"}, ("/etc/passwd",)),
    ({"x": "../other/file"}, ("../other/file",)),
    ({"x": "./here"}, ("./here",)),
    ({"x": "~/.bashrc"}, ("~/.bashrc",)),
    ({"x": ["y", {"z": "~"}]}, ("~",)),
    ({"directory": "build"}, ("build",)),
]

COMMANDS: list[dict[str, Any]] = [
    {"command": "make"},
    {"cmd": ["make", "all"]},
    {"shellCommand": "make"},
    {"script": "rm -rf ."},
    {"code": "open('x', 'w')"},
    {"sql": "drop table a"},
    {"patch": "*** Begin Patch"},
    {"options": [{"python_code": "1"}]},
]

UNPROVED: list[dict[str, Any]] = [
    {},
    {"timeout": 30, "all": True, "note": None},
    {"owner": "acme", "repo": "shop", "state": "open"},
    {"prompt": "every morning", "cron": "0 9 * * *"},
    {"to": "kim", "message": "two lines\n/etc/passwd is one"},
    {"uri": "https://example.org/docs"},
    {"files_per_page": 10, "path": ""},
    {"goal": "a" * 5000},
    {"profile": "me", "rewrite": "x", "encode": "y"},
]


@pytest.mark.parametrize(("arguments", "paths"), NAMED_PATHS)
def test_an_argument_is_a_path_by_its_key_or_by_its_form(arguments: dict[str, Any], paths: tuple[str, ...]) -> None:
    found = classify_unlisted(arguments)
    assert (found.effect, found.paths) == ("execute", paths)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_command_makes_a_call_execute(arguments: dict[str, Any]) -> None:
    assert classify_unlisted(arguments).effect == "execute"


@pytest.mark.parametrize("arguments", UNPROVED)
def test_a_call_that_names_neither_is_unproved(arguments: dict[str, Any]) -> None:
    found = classify_unlisted(arguments)
    assert (found.effect, found.paths) == ("unproved", ())


def test_a_text_that_may_be_a_path_is_a_guess() -> None:
    assert classify_unlisted({"library": "/vercel/next.js", "name": "README.md"}) == UnlistedCall(
        guesses=("/vercel/next.js", "README.md")
    )
    assert classify_unlisted({"library": "/vercel/next.js"}).effect == "execute", "until somebody has looked"
