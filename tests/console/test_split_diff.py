"""Changes side by side: the view is in the address, both sides have their numbers and their marked words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.console_world import Browser, serving
from console.review_world import make_branch
from remit.console.render import mark_diff, pair_lines

DIFF = "@@ -1,4 +1,3 @@\n one\n-old name = 1\n-gone\n+new name = 1\n same\n"


def test_a_block_has_what_was_cut_beside_what_came() -> None:
    pairs = list(pair_lines(mark_diff(DIFF)))
    found = [
        (old and (old.kind, old.old, str(old.text)), new and (new.kind, new.new, str(new.text))) for old, new in pairs
    ]
    assert found[1:] == [
        (("same", 1, "one"), ("same", 1, "one")),
        (("cut", 2, "<b>old</b> name = 1"), ("add", 2, "<b>new</b> name = 1")),
        (("cut", 3, "gone"), None),
        (("same", 4, "same"), ("same", 3, "same")),
    ]


@pytest.fixture
def browser(repository: Path, home: Path) -> Iterator[Browser]:
    make_branch(repository, home)
    with serving(home) as server:
        found = Browser(server)
        found.pair()
        yield found


def test_the_address_says_which_view_is_shown(browser: Browser) -> None:
    at = "/r/repo/changes?range=main..HEAD&wait=1"
    unified, split = browser.get(at).text, browser.get(f"{at}&view=split").text
    assert "diff split" not in unified
    assert '<div class="diff split"' in split
    assert '<td class="text old cut">    return header<b> ==</b> body</td>' in split
    assert '<td class="text new add">    return <b>compare(</b>header<b>,</b> body<b>)</b></td>' in split
    assert "view=split" in split[split.index("Which changes") :]
    assert "only=uncommitted&amp;view=split" in split
    assert (browser.get("/r/repo/changes.json?view=split").data["view"], browser.get(f"{at}&view=x").status) == (
        "split",
        400,
    )
