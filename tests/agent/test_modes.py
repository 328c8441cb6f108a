"""Modes: what each may do, and that a repository's own never widen a right."""

from pathlib import Path

import pytest

from remit_agent.session.modes import ALL_GROUPS, AgentMode, find_modes

CUSTOM = """\
customModes:
  - slug: docs
    name: Docs Writer
    roleDefinition: You write documentation.
    whenToUse: for texts
    customInstructions: Be short.
    groups:
      - read
      - - edit
        - fileRegex: \\.(md|mdx)$
          description: Markdown
  - slug: ask
    name: Ask
    roleDefinition: You do everything.
    groups: [read, edit, command, mcp]
  - slug: "bad slug"
    roleDefinition: x
  - slug: no-role
"""


def test_the_five_modes_narrow_as_the_table_says(tmp_path: Path) -> None:
    modes = find_modes(tmp_path)
    assert {slug: mode.paths for slug, mode in modes.items()} == {
        "architect": ("**/*.md",), "code": None, "ask": (), "debug": None, "orchestrator": (),
    }  # fmt: skip
    assert modes["code"].groups == ALL_GROUPS
    assert "write" not in modes["ask"].groups
    assert "command" not in modes["architect"].groups


def test_a_mode_of_the_repository_is_read_and_narrows(tmp_path: Path) -> None:
    (tmp_path / ".roomodes").write_text(CUSTOM)
    modes = find_modes(tmp_path)
    assert list(modes)[:5] == ["architect", "code", "ask", "debug", "orchestrator"]
    docs = modes["docs"]
    assert docs.paths == ("**/*.md", "**/*.mdx")
    assert docs.groups == {"read", "write", "intent", "mode"}
    assert (docs.name, docs.role, docs.when_to_use, docs.instructions) == (
        "Docs Writer", "You write documentation.", "for texts", "Be short.",
    )  # fmt: skip
    assert docs.source == ".roomodes"
    assert {"bad slug", "no-role"} & modes.keys() == set()


def test_a_mode_with_a_built_in_slug_stays_within_it(tmp_path: Path) -> None:
    (tmp_path / ".roomodes").write_text(CUSTOM)
    ask = find_modes(tmp_path)["ask"]
    assert ask.role == "You do everything."
    assert ask.groups == {"read", "mode"}
    assert ask.paths == ()


PATHS = {
    "fileRegex: \\.py$": ("**/*.py",),
    "fileRegex: .*\\.ts$": ("**/*.ts",),
    "fileRegex: ^(?!secret).*$": (),
    "paths: [docs/**, README.md]": ("docs/**", "README.md"),
    "paths: ['[']": (),
}


@pytest.mark.parametrize("line", PATHS)
def test_an_expression_that_no_glob_says_allows_no_file(tmp_path: Path, line: str) -> None:
    folder = tmp_path / ".orchestration" / "modes"
    folder.mkdir(parents=True)
    (folder / "x.yaml").write_text(f"slug: x\nroleDefinition: y\ngroups: [read, edit]\n{line}\n")
    assert find_modes(tmp_path)["x"].paths == PATHS[line]


JUNK = ("", "[", "a: &a [*a]", "customModes: 3", "customModes: [[]]", "\0", "slug: [x]\nroleDefinition: {}", "- 1")


@pytest.mark.parametrize("text", JUNK)
def test_junk_is_no_mode(tmp_path: Path, text: str) -> None:
    (tmp_path / ".roomodes").write_text(text)
    assert len(find_modes(tmp_path)) == 5


WIDER = [("code", "ask", True), ("ask", "code", False), ("architect", "ask", True), ("debug", "code", False)]


@pytest.mark.parametrize(("mode", "than", "is_wider"), WIDER)
def test_a_mode_with_more_rights_is_known_as_wider(tmp_path: Path, mode: str, than: str, is_wider: bool) -> None:
    modes = find_modes(tmp_path)
    assert modes[mode].is_wider_than(modes[than]) == is_wider


def test_other_paths_are_wider() -> None:
    one, two = (AgentMode("x", "x", "x", paths=(path,)) for path in ("a/**", "b/**"))
    assert one.is_wider_than(two)
    assert two.is_wider_than(one)
