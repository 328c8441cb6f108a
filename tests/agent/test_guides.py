"""A repository's slash commands, typed by a person."""

from pathlib import Path

import pytest

from remit_agent.tools.guides import expand_command

COMMANDS = {
    "release": "Write the notes of version $ARGUMENTS.\n",
    "plain": "---\ndescription: Look\n---\nLook around.\n",
}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("/release 1.2", ".orchestration/commands/release.md\n\nWrite the notes of version 1.2.\n"),
        ("/plain", ".orchestration/commands/plain.md\n\nLook around.\n"),
        ("/plain at it", ".orchestration/commands/plain.md\n\nLook around.\n\nArguments: at it"),
        ("/other 1", "/other 1"),
        ("release 1", "release 1"),
        ("/../release", "/../release"),
        ("", ""),
    ],
)
def test_words_that_begin_with_a_command_become_its_text(tmp_path: Path, words: str, text: str) -> None:
    folder = tmp_path / ".orchestration" / "commands"
    folder.mkdir(parents=True)
    for name, body in COMMANDS.items():
        (folder / f"{name}.md").write_text(body)
    assert expand_command(tmp_path, words) == text
