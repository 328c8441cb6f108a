"""The card on a phone: the branch, and the changed words of a change."""

import re
import time
from pathlib import Path

from conftest import run_git
from gate.driving import governed, machine
from remit.console.pages.approvals import Approvals, show_question
from remit.console.render import render_part
from remit.console.repositories import GovernedRepository
from remit.gate.gate import Gate
from remit.gate.people.questions import ListedQuestion, Question
from remit.workspace.place.workspace import locate_workspace

DIFF = "@@ -1 +1 @@\n-not in the scope\n+now in the scope\n"


def test_the_card_names_the_branch_and_marks_the_changed_words(repository: Path, home: Path) -> None:
    governed(repository)
    run_git(repository, "switch", "-qc", "feature/words")
    end = time.time() + 60
    question = Question(
        id="q-0001",
        session_id="s",
        agent="a",
        intent_id="INT-001",
        code="SCOPE_VIOLATION",
        action="Write: docs/a.md",
        message="",
        path="docs/a.md",
        risk=10,
        diff=DIFF,
        expires_at=end,
    )
    gate = Gate(locate_workspace(repository), machine(home))
    place = GovernedRepository("repo", str(repository))
    card = show_question(place, gate, ListedQuestion(question, "open"))
    values = {"data": Approvals([], card, 1), "base": "/r/repo", "waiting": 1, "reader": None}
    html = render_part("phone.html", "card", values)
    assert "on <code>feature/words</code>" in html
    assert re.search(r'<tr class="cut">.*<b>not</b> in the scope', html)
    assert re.search(r'<tr class="add">.*<b>now</b> in the scope', html)
    run_git(repository, "switch", "-qc", "other")  # the branch is not part of what is decided
    again = show_question(place, gate, ListedQuestion(question, "open"))
    assert (again.branch, again.shown_sha256) == ("other", card.shown_sha256)
    gate.close()
