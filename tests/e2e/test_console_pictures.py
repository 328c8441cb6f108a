"""The pictures of the console: small, and each shown by a page. `make pictures` draws them anew, from a real run."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
MAX_BYTES = 150_000
PICTURES = sorted((DOCS / "assets").glob("console-*.png"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_and_a_page_shows_it(picture: Path) -> None:
    assert picture.stat().st_size < MAX_BYTES
    pages = [page.read_text("utf-8") for page in DOCS.rglob("*.md")]
    assert any(f"assets/{picture.name})" in page for page in pages)
