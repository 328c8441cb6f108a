"""Words that do not fit are told with the command that they were said to, and where to read on."""

import json
from pathlib import Path

import pytest

from cli.running import run


@pytest.mark.parametrize(
    ("words", "help_", "said"),
    [
        ("log --since", "remit log --help", "'--since' requires an argument"),
        ("intent select --repo", "remit intent select --help", "'--repo' requires an argument"),
        ("log --nope", "remit log --help", "No such option '--nope'"),
        ("nots", "remit --help", "Did you mean 'notes'?"),
        ("ledger proof 3", "remit ledger --help", "`remit ledger proof` was removed; instead: `remit ledger push`"),
    ],
)
def test_what_does_not_fit_names_its_command_and_where_to_read_on(
    tmp_path: Path, words: str, help_: str, said: str
) -> None:
    done = run(tmp_path, *words.split())
    assert done.returncode == 2
    assert f"Try '{help_}' for help." in done.stderr
    assert said in done.stderr


def test_who_asked_for_json_is_told_so_in_json(tmp_path: Path) -> None:
    assert json.loads(run(tmp_path, "log", "--json", "--since").stdout)["error"]["fix"] == "read `remit log --help`"
