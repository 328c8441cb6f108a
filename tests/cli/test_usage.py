"""Words that do not fit are told with the command that they were said to, and where to read on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MAIN = "from remit.cli import main; main()"


@pytest.mark.parametrize(
    ("words", "help_", "said"),
    [
        ("log --since", "remit log --help", "'--since' requires an argument"),
        ("intent select --repo", "remit intent select --help", "'--repo' requires an argument"),
        ("log --nope", "remit log --help", "No such option '--nope'"),
        ("nots", "remit --help", "Did you mean 'notes'?"),
    ],
)
def test_what_does_not_fit_names_its_command_and_where_to_read_on(
    tmp_path: Path, words: str, help_: str, said: str
) -> None:
    argv = [sys.executable, "-c", MAIN, *words.split()]
    around = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(argv, cwd=tmp_path, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"Try '{help_}' for help." in done.stderr
    assert said in done.stderr


def test_who_asked_for_json_is_told_so_in_json(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", MAIN, "log", "--json", "--since"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["error"]["fix"] == "read `remit log --help`"
