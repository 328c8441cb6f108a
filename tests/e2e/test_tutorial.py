"""Pages whose commands run, and the player that runs them."""

from pathlib import Path

import pytest

from e2e.transcripts import files, fits, play, report, steps

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "commands"), [("first-intent", 25), ("watch-and-decide", 18)])
def test_a_tutorial_comes_out_as_shown(tmp_path: Path, name: str, commands: int) -> None:
    """Every page of the tutorial uses the pretend agent of the first one."""
    page = (DOCS / "tutorial" / f"{name}.md").read_text("utf-8")
    for saved, content in files((DOCS / "tutorial" / "first-intent.md").read_text("utf-8")).items():
        (tmp_path / saved).write_text(content)
    played = play(page, tmp_path)
    assert len(played) >= commands
    assert not (wrong := report(played)), wrong


@pytest.mark.live
@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda p: p.stem)
def test_a_how_to_comes_out_as_shown(page: Path, repository: Path) -> None:
    text = page.read_text("utf-8")
    for name, content in files(text).items():
        (repository / name).write_text(content)
    assert steps(text), "a how-to has commands that run"
    assert not (wrong := report(play(text, repository))), wrong


@pytest.mark.parametrize(
    ("shown", "printed", "fit"),
    [
        (("a",), ("a",), True),
        (("a",), ("b",), False),
        (("a",), (), False),
        ((), ("a",), False),
        (("a … c",), ("a b c",), True),
        (("a … c",), ("a b\nd c",), False),
        (("a", "…"), ("a", "b", "c"), True),
        (("…", "c"), ("a", "b"), False),
        (("a.c",), ("abc",), False),
    ],
)
def test_what_is_shown_fits_only_what_is_printed(shown: tuple[str, ...], printed: tuple[str, ...], fit: bool) -> None:
    assert fits(shown, printed) is fit


def test_a_command_that_fails_or_prints_something_else_is_reported(tmp_path: Path) -> None:
    assert "exit code 3" in report(play("```console\n$ (exit 3)\n```\n", tmp_path))
    assert "two" in report(play("```console\n$ echo two\none\n```\n", tmp_path))
    assert not report(play("```console\n$ printf one\none\n$ x=2\n$ echo $x\n2\n```\n", tmp_path))
