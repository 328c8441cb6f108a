"""The first five minutes of the README, as a reader would type them."""

from pathlib import Path

from e2e.transcripts import play, report

README = Path(__file__).parents[2] / "README.md"


def test_the_first_five_minutes_of_the_readme_come_out_as_shown(repository: Path) -> None:
    repository.rename(repository.with_name("your-repository"))
    played = play(README.read_text("utf-8"), repository.parent)
    assert len(played) >= 6
    assert not (wrong := report(played)), wrong


def test_the_readme_stays_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150
