"""Settings that an agent ignores as a whole, found out by giving each form to the real clients."""

from pathlib import Path

import pytest

from cli.wired_home import Person
from remit.adapters import ROWS
from remit.wiring.json_text import find_unusual_forms

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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", ""),
        ('{"a": "// no", "b": "/* no */, ]", "c": "\\",}"}', ""),
        ('{"a": [1, 2, ], }', "comma"),
        ('{"a": 1 /* , */ }', "comment"),
        ('{"a": 1, // last\n}', "comma comment"),
        ('\ufeff{"a": 1,}', "bom comma"),
    ],
)
def test_what_strict_json_has_not_is_found(text: str, found: str) -> None:
    assert find_unusual_forms(text.encode()) == set(found.split())


@pytest.mark.parametrize("agent", ROWS)
@pytest.mark.parametrize("form", FORMS)
def test_init_and_doctor_say_when_an_agent_will_not_read_its_hooks(
    form: str, agent: str, repository: Path, home: Path
) -> None:
    people = Person(home)
    file = home / ROWS[agent].hooks_file
    file.parent.mkdir(exist_ok=True)
    file.write_text(FORMS[form])
    expected = form in IGNORED[agent]
    words = ("init", "--agent", agent, "--mode", "enforce")
    for said in (people.remit(repository, *words, "--yes"), people.remit(repository, *words, "--yes")):
        assert ("does not read" in said) is expected
    checks = people.run(repository, "doctor", "--json").stdout
    assert ("does not read" in checks) is expected
