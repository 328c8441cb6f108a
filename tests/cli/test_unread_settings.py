"""Settings that an agent ignores as a whole, found out by giving each form to the real clients."""

from pathlib import Path

import pytest

from cli.wired_home import Person
from remit.core.agents import ROWS

FORMS = {
    "bom": '\ufeff{"theme": "dark"}',
    "comment": '{\n  // mine\n  "theme": "dark"\n}',
    "comma": '{"env": {"A": "b",}}',
}
IGNORED: dict[str, set[str]] = {
    "claude-code": {"comment", "comma"},
    "codex": {"bom", "comment", "comma"},
    "gemini": set(),
    "qwen": set(),
}
"""Claude Code 2.1.330, Codex CLI 0.169.0, Gemini CLI 0.61.0, Qwen Code 0.24.4: with these, no hook ran."""


@pytest.mark.parametrize("form", FORMS)
def test_init_and_doctor_say_which_agents_will_not_read_their_hooks(form: str, repository: Path, home: Path) -> None:
    people = Person(home, ())
    for row in ROWS.values():
        (home / row.hooks_file).parent.mkdir(exist_ok=True)
        (home / row.hooks_file).write_text(FORMS[form])
    deaf = {row.title for row in ROWS.values() if form in IGNORED[row.agent]}

    def named(text: str) -> set[str]:
        return {row.title for row in ROWS.values() if f"{row.title} does not read" in text}

    words = ("init", *(word for agent in ROWS for word in ("--agent", agent)), "--mode", "enforce", "--yes")
    for said in (people.remit(repository, *words), people.remit(repository, *words)):
        assert named(said) == deaf
    assert named(people.run(repository, "doctor", "--json", "--runs", "1").stdout) == deaf
