"""The status of an intent, from its file, the newest record and the place: one row of the table a case."""

import pytest

from remit.core.intent import Intent, Status, identify
from remit.core.intents.life import LifeRecord, Origin, Place, derive_status, fingerprint

HERE = Place("/r", "main", {"main": "c1", "feature": "c2", "merged": "c1", "fresh": "c0"}, frozenset({"merged"}))


def written(status: Status) -> Intent:
    return Intent("INT-001", ("src/**",), status=status, blocked_reason="waits" if status == "BLOCKED" else None)


def record(status: Status, branch: str = "main", worktree: str = "/r", *, is_written: bool = True) -> LifeRecord:
    return LifeRecord(
        "INT-001", status, "2026-11-28T14:02:00Z", "claude-code", worktree, branch, "c0", None, is_written
    )


CASES: list[tuple[str, Status, LifeRecord | None, Status, Origin]] = [
    ("the file closes it", "DONE", None, "DONE", "file"),
    ("the file closes it, whatever was recorded", "ABORTED", record("IN_PROGRESS"), "ABORTED", "file"),
    ("closed here, not on disk", "DRAFT", record("DONE", is_written=False), "DONE", "record"),
    ("closed elsewhere, written nowhere", "DRAFT", record("DONE", "x", "/w", is_written=False), "DONE", "record"),
    ("closed on another branch", "DRAFT", record("DONE", "feature", "/w"), "DONE", "elsewhere"),
    ("closed on the branch that was here before", "DRAFT", record("DONE", "feature"), "DONE", "elsewhere"),
    ("closed there, its branch merged, and reverted here", "DRAFT", record("DONE", "merged", "/w"), "DRAFT", "open"),
    ("closed there, its branch deleted", "DRAFT", record("DONE", "gone", "/w"), "DRAFT", "open"),
    ("closed there and not committed yet", "DRAFT", record("DONE", "fresh", "/w"), "DONE", "elsewhere"),
    ("closed here, and the file taken back", "DRAFT", record("DONE"), "DRAFT", "open"),
    ("the file blocks it", "BLOCKED", None, "BLOCKED", "file"),
    ("blocked, not on disk", "DRAFT", record("BLOCKED", is_written=False), "BLOCKED", "record"),
    ("blocked, and the line taken out by hand", "DRAFT", record("BLOCKED"), "DRAFT", "open"),
    ("somebody works under it", "DRAFT", record("IN_PROGRESS", "x", "/w", is_written=False), "IN_PROGRESS", "record"),
    ("an old file says that somebody does", "IN_PROGRESS", None, "IN_PROGRESS", "file"),
    ("nobody ever did", "DRAFT", None, "DRAFT", "open"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "known", "status", "origin"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_status_follows_from_file_record_and_place(
    file: Status, known: LifeRecord | None, status: Status, origin: Origin
) -> None:
    found = derive_status(written(file), known, HERE)
    assert (found.status, found.origin) == (status, origin)
    assert found.said or found.reason


def test_a_revoked_closing_closes_no_more_but_a_new_one_does() -> None:
    revoked = LifeRecord("INT-001", "IN_PROGRESS", "t", "p", "/r", reopened=(fingerprint(written("DONE")),))
    assert derive_status(written("DONE"), revoked, HERE).status == "IN_PROGRESS"
    again = Intent("INT-001", ("src/**", "docs/**"), status="DONE")
    assert derive_status(again, revoked, HERE).status == "DONE"


def test_two_intents_of_one_label_have_names_of_their_own() -> None:
    mine, theirs = (Intent("INT-001", ("a",), created_at=f"2026-11-2{n}T00:00:00Z") for n in (1, 2))
    assert identify(mine) != identify(theirs)
    assert identify(Intent("INT-007", ("a",), created_at=mine.created_at, uid=identify(mine))) == identify(mine)
