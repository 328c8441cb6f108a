"""The files that a brief is about."""

import pytest

from remit_fleet.planning.suggest.candidates import find_candidates
from remit_fleet.planning.suggest.coupling import RepositoryHistory

FILES = ["docs/tokens.md", "src/api/views.py", "src/auth/keys.py", "src/auth/tokens.py", "src/ui/views.py"]
PAST = RepositoryHistory(intents={"INT-001": ("src/auth/keys.py", "src/gone.py"), "INT-002": ("src/ui/views.py",)})
TITLES = {"INT-001": "Rotate signing keys", "INT-002": "Paint buttons"}


@pytest.mark.parametrize(
    ("brief", "expected"),
    [
        ("Change src/auth/tokens.py, please.", ["src/auth/tokens.py"]),
        ("All of `src/auth/` expires", ["src/auth/keys.py", "src/auth/tokens.py"]),
        ("see tokens.md", ["docs/tokens.md"]),
        ("see views.py", []),  # two files have that name
        ("The signing keys have to rotate monthly", ["src/auth/keys.py"]),
        ("signing", []),
        ("../../etc/passwd and /etc/shadow", []),
        ("\x00\x1b[31m\n" * 100, []),
    ],
)
def test_a_brief_is_about_what_it_names_and_what_like_intents_changed(brief: str, expected: list[str]) -> None:
    assert find_candidates(brief, FILES, PAST, TITLES, {}) == expected


def test_what_goes_with_a_named_file_comes_along() -> None:
    strengths = {("docs/tokens.md", "src/auth/tokens.py"): 0.4, ("src/api/views.py", "src/auth/tokens.py"): 0.01}
    found = find_candidates("src/auth/tokens.py", FILES, PAST, TITLES, strengths)
    assert found == ["docs/tokens.md", "src/auth/tokens.py"]
