"""Which stories a submission runs: `.ci/live_tests.py`."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODULE: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "live_tests.py"))


@pytest.mark.parametrize(
    ("changed", "some", "none"),
    [
        (
            ["packages/remit-fleet/src/remit_fleet/board.py"],
            ["tests/e2e/test_plans_live.py", "tests/fleet"],
            ["tests/gate"],
        ),
        (["src/remit/console/live.py"], ["tests/e2e/test_console_pages.py", "tests/console"], ["tests/cli"]),
        (["src/remit_hook/client.c"], ["tests/e2e/test_four_agents.py"], ["tests/servers"]),
        (["tests/gate/test_new.py"], ["tests/gate"], ["tests/fleet"]),
        (["tests/e2e/test_why_live.py"], ["tests/e2e/test_why_live.py"], ["tests/e2e/test_four_agents.py"]),
        (["docs/how-to/check-in-ci.md"], ["tests/e2e/test_tutorial.py"], ["tests/gate"]),
        (["README.md", "changelog.d/+a.fixed.md"], [], ["tests"]),
        (["tests/waiting.py"], ["tests"], []),
        (["uv.lock"], ["tests"], []),
    ],
)
def test_each_room_that_changed_brings_its_stories(
    changed: list[str], some: list[str], none: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    chosen: list[str] = MODULE["choose"](changed)
    assert set(some) <= set(chosen)
    assert not set(none) & set(chosen)


def test_every_room_and_every_story_that_is_named_is_there() -> None:
    rooms = {path.name for path in (ROOT / "src" / "remit").iterdir() if (path / "__init__.py").exists()}
    rooms |= {path.name.removeprefix("remit-") for path in (ROOT / "packages").iterdir()}
    stories: dict[str, tuple[str, ...]] = MODULE["STORIES"]
    assert stories.keys() <= rooms | {"docs", "remit_hook"}
    for name in {name for names in stories.values() for name in names}:
        assert list((ROOT / "tests" / "e2e").glob(f"{name}.py")), name
