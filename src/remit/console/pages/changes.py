"""Changes: what a branch and the work tree have that the base has not, by intent, with what to look at first.

The findings and the hunks are the answers of `remit verify`, for the range and for what no commit has.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from remit.console.guard import Refused
from remit.console.pages.page import PageRequest
from remit.core.call import SessionKey
from remit.core.python_runtime import prepare_type
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import quote_path
from remit.gate.gate import Gate
from remit.gate.people import reviews
from remit.gate.undo.restore import CannotUndo, revert_change
from remit.policy.constraint_kinds import DEFAULT_TEST_PATTERNS
from remit.provenance.verify.changed_hunks import (
    ChangedHunk,
    CompareEnds,
    HunkPatch,
    LinelessChange,
    find_ends,
    read_hunk_patches,
)
from remit.provenance.verify.rules import SEVERITIES, RuleFinding
from remit.workspace.git.command import Git, GitError
from remit.workspace.snapshots.restore import RestoreRunning

MAX_RANGE_CHARS = 200
MAX_SHOWN_LINES = 700  # lines of hunks on one page: more would not be read, and a browser would feel them
MAX_LINES_OF_HUNK = 80
ANSWER_AGE_S = 1.0
SOON_S = 0.08  # answers that come within this time are waited for
FIRST_RULES = ("RMT001", "RMT004", "RMT011", "RMT005", "RMT009", "RMT018", "RMT010", "RMT002")
RULE_WORDS = {
    "RMT001": "out of scope",
    "RMT002": "no intent",
    "RMT004": "protected",
    "RMT005": "tests weakened",
    "RMT009": "agent settings",
    "RMT010": "dependencies",
    "RMT011": "secret",
    "RMT018": "constraint",
}
TESTS = Scope(DEFAULT_TEST_PATTERNS)


class LookFirst(Struct, frozen=True):
    """A finding, in a word of its rule, with the hunk in which it stands; `hunk` is empty for none."""

    finding: RuleFinding
    word: str
    hunk: str
    is_committed: bool


class ReviewedHunk(Struct, frozen=True):
    """A hunk under review. `cut` counts the lines that are not shown."""

    changed: ChangedHunk
    is_committed: bool
    is_reviewed: bool
    is_test: bool
    findings: list[str]
    cut: int = 0


DiffView: TypeAlias = Literal["unified", "split"]


class IntentGroup(Struct, frozen=True):
    """The hunks of an intent; without `intent_id` those of people, and of agents without an intent."""

    intent_id: str
    name: str
    files: int
    hunks: list[ReviewedHunk]
    reviewed: int


class Changes(Struct, frozen=True):
    """The changes of a range and of the work tree. `committed` and `uncommitted` are the answers of `remit verify`;
    hunks from position `start` on are shown.
    """

    range: str
    only: str
    committed: dict[str, Any] | None
    uncommitted: dict[str, Any] | None
    look_first: list[LookFirst]
    groups: list[IntentGroup]
    total: int
    start: int
    next_start: int | None
    left_out: int
    lineless: list[LinelessChange]
    reviewed: int
    severities: dict[str, int]
    summary: str
    waiting: list[str]
    """Agents for which a message of a person waits."""

    is_coming: bool = False
    """The answers are still to come: nothing of them is here."""

    view: DiffView = "unified"


def read_changes(request: PageRequest) -> Changes:
    wanted, only = read_range(request), request.query.get("only", "")
    if only not in ("", "committed", "uncommitted"):
        raise Refused(400, f"only is {only[:40]!r}", "take it out of the address")
    view: DiffView = "split" if request.query.get("view") == "split" else "unified"
    if request.query.get("view", view) != view:
        raise Refused(
            400, f"view is {request.query['view'][:40]!r}; there are unified, split", "take it out of the address"
        )
    committed_answer = ask_verify(request, wanted) if wanted and only != "uncommitted" else None
    uncommitted_answer = ask_verify(request, "") if only != "committed" else None
    is_awaited = request.wants_all or request.part == "review" or request.query.get("wait") == "1"
    asked = [answer for answer in (committed_answer, uncommitted_answer) if answer]
    if not is_awaited and wait(asked, timeout=SOON_S).not_done:
        return Changes(wanted, only, None, None, [], [], 0, 0, None, 0, [], 0, {}, "", [], is_coming=True, view=view)
    committed = committed_answer.result() if committed_answer else None
    uncommitted = uncommitted_answer.result() if uncommitted_answer else None
    with request.repositories.open_gate(request.one_repository) as gate:
        reviewed = set(reviews.list_reviewed(gate.state))
        names = gate.rules.titles
        waiting = list_waiting_agents(gate, (committed, uncommitted))
    asked_for = (uncommitted, committed)
    hunks = [
        (hunk, is_committed)
        for answer, is_committed in ((uncommitted, False), (committed, True))
        for hunk in (convert(answer["hunks"], prepare_type(list[ChangedHunk])) if answer else ())
    ]
    look_first = list_look_first(committed, uncommitted, hunks)
    found: dict[str, list[str]] = {}
    for item in look_first:
        found.setdefault(item.hunk, []).append(item.word)
    groups = group_hunks(hunks, reviewed, found, names)
    start = request.number("from", 0, 1_000_000)
    shown, next_start = cut_to_window(groups, start, request.query.get("h", ""))
    return Changes(
        wanted,
        only,
        committed,
        uncommitted,
        look_first,
        shown,
        len(hunks),
        start,
        next_start,
        sum(int(answer["left_out"]) for answer in asked_for if answer),
        [
            each
            for answer in asked_for
            if answer
            for each in convert(answer["lineless"], prepare_type(list[LinelessChange]))
        ],
        sum(hunk.id in reviewed for hunk, _ in hunks),
        Counter(item.finding.severity for item in look_first),
        summarize_for_pull_request(wanted, groups, look_first, committed),
        waiting,
        view=view,
    )


def list_waiting_agents(gate: Gate, answers: Iterable[dict[str, Any] | None]) -> list[str]:
    authors = [hunk["author"] for answer in answers if answer for hunk in answer["hunks"]]
    sessions = {str(author["session_id"]): str(author["agent"]) for author in authors if author["session_id"]}
    return [
        agent for session, agent in sessions.items() if reviews.has_waiting_comments(gate.state, SessionKey(session))
    ]


def ask_verify(request: PageRequest, wanted: str) -> Future[dict[str, Any]]:
    repository, repositories = request.one_repository, request.repositories
    words = ("verify", *([wanted] if wanted else ["--uncommitted"]), "--hunks")
    question = (repository.root, words)
    answer = partial(repositories.run_command, repository, *words)
    return repositories.heavy.ask(question, answer, max_age_s=ANSWER_AGE_S)


def read_range(request: PageRequest) -> str:
    """Return the range of the address, or from the base branch to HEAD; empty if HEAD is the base. Raises Refused."""
    asked = request.query.get("range")
    if asked is None:
        return find_default_range(request.one_repository.root)
    if len(asked) > MAX_RANGE_CHARS or asked.startswith("-"):
        raise Refused(400, "this is no range of commits", "for example main..HEAD")
    return asked


def find_default_range(root: str) -> str:
    git = Git(Path(root))
    try:
        head = git.text("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1, 128))
        names = git.text("for-each-ref", "--format=%(refname:short)", *BASE_BRANCHES).split()
    except GitError:
        return ""
    known = [name for name in ("origin/main", "origin/master", "main", "master") if name in names and name != head]
    local = [name for name in known if not name.startswith("origin/")]
    base = next(iter(known if head in ("main", "master") else [*local, *known]), "")
    return f"{base}..HEAD" if base else ""


BASE_BRANCHES = ("refs/heads/main", "refs/heads/master", "refs/remotes/origin/main", "refs/remotes/origin/master")


def list_look_first(
    committed: dict[str, Any] | None, uncommitted: dict[str, Any] | None, hunks: Sequence[tuple[ChangedHunk, bool]]
) -> list[LookFirst]:
    found: list[LookFirst] = []
    seen: set[RuleFinding] = set()
    for answer, is_committed in ((uncommitted, False), (committed, True)):
        for finding in convert(answer["findings"], prepare_type(list[RuleFinding])) if answer else ():
            if finding in seen:
                continue  # findings on the ledger stand in both answers
            seen.add(finding)
            word = RULE_WORDS.get(finding.rule, "")
            found.append(LookFirst(finding, word, find_hunk(finding, is_committed, hunks), is_committed))
    return sorted(found, key=order_of_finding)


def order_of_finding(item: LookFirst) -> tuple[int, int, str, int]:
    rule, severity = item.finding.rule, SEVERITIES.index(item.finding.severity)
    first = FIRST_RULES.index(rule) if rule in FIRST_RULES else len(FIRST_RULES)
    return (first, -severity, item.finding.path, item.finding.line)


def find_hunk(finding: RuleFinding, is_committed: bool, hunks: Sequence[tuple[ChangedHunk, bool]]) -> str:
    """Return the id of the hunk with the finding's record or line, else of the file's first hunk; empty for none."""
    if not finding.path:
        return ""
    of_file = [hunk for hunk, committed in hunks if hunk.path == finding.path and committed == is_committed]
    by_record = [hunk for hunk in of_file if finding.record and finding.record in hunk.author.records]
    by_line = [hunk for hunk in by_record or of_file if finding.line in hunk.hunk.new_range]
    return next((hunk.id for hunk in (*by_line, *by_record, *of_file)), "")


def group_hunks(
    hunks: Iterable[tuple[ChangedHunk, bool]], reviewed: set[str], found: dict[str, list[str]], names: dict[str, str]
) -> list[IntentGroup]:
    groups: dict[str, list[ReviewedHunk]] = {}
    for hunk, is_committed in hunks:
        is_test = TESTS.matches(hunk.path)
        shown = ReviewedHunk(hunk, is_committed, hunk.id in reviewed, is_test, found.get(hunk.id, []))
        groups.setdefault(hunk.author.intent_id or "", []).append(shown)
    ordered = sorted(groups.items(), key=lambda item: (not item[0], item[0]))
    result: list[IntentGroup] = []
    for intent_id, members in ordered:
        urgent = {each.changed.path for each in members if each.findings}
        members.sort(
            key=lambda each: (
                each.changed.path not in urgent,
                not each.is_test,
                each.changed.path,
                each.changed.hunk.new,
            )
        )
        count = sum(each.is_reviewed for each in members)
        files = len({each.changed.path for each in members})
        result.append(IntentGroup(intent_id, names.get(intent_id, ""), files, members, count))
    return result


def cut_to_window(groups: list[IntentGroup], start: int, opened: str) -> tuple[list[IntentGroup], int | None]:
    shown: list[IntentGroup] = []
    position = lines = 0
    for group in groups:
        members: list[ReviewedHunk] = []
        for each in group.hunks:
            if position >= start:
                if lines > MAX_SHOWN_LINES:
                    return [*shown, *([with_hunks(group, members)] if members else [])], position
                members.append(each if each.changed.id == opened else cut_hunk(each))
                lines += len(members[-1].changed.old) + len(members[-1].changed.new) + 6
            position += 1
        if members:
            shown.append(with_hunks(group, members))
    return shown, None


def with_hunks(group: IntentGroup, members: list[ReviewedHunk]) -> IntentGroup:
    return IntentGroup(group.intent_id, group.name, group.files, members, group.reviewed)


def cut_hunk(each: ReviewedHunk) -> ReviewedHunk:
    changed = each.changed
    total = len(changed.old) + len(changed.new)
    if total <= MAX_LINES_OF_HUNK:
        return each
    old = changed.old[: MAX_LINES_OF_HUNK // 2]
    new = changed.new[: MAX_LINES_OF_HUNK - len(old)]
    shown = ChangedHunk(
        changed.id, changed.path, changed.source, changed.hunk, old, new, changed.above, (), changed.author
    )
    cut = total - len(old) - len(new)
    return ReviewedHunk(shown, each.is_committed, each.is_reviewed, each.is_test, each.findings, cut)


def summarize_for_pull_request(
    wanted: str, groups: Sequence[IntentGroup], look_first: Sequence[LookFirst], committed: dict[str, Any] | None
) -> str:
    lines = ["## Changes by intent", ""]
    for group in groups:
        agents = sorted({each.changed.author.agent or "" for each in group.hunks} - {""})
        added = sum(each.changed.hunk.new_lines for each in group.hunks)
        removed = sum(each.changed.hunk.old_lines for each in group.hunks)
        title = f"**{group.intent_id}** {group.name}".strip() if group.intent_id else "No intent"
        by = f", by {', '.join(agents)}" if agents else ""
        lines.append(f"- {title}: {group.files} file{'s' * (group.files != 1)}, +{added} −{removed}{by}")
    marked = [item.finding for item in look_first if item.finding.path]
    if marked:
        lines += ["", "## Look first", ""]
        lines += [f"- `{f.path}{f':{f.line}' if f.line else ''}` {f.rule}: {f.message}" for f in marked[:20]]
        lines += [f"- and {len(marked) - 20} more"] if len(marked) > 20 else []
    evidence = committed.get("evidence") if committed else None
    if evidence:
        counted = evidence["lines"]
        lines += ["", f"{counted['total'] - counted['nothing']} of {counted['total']} added lines have evidence of "]
        lines[-1] += f"who wrote them (`remit verify {wanted}`)."
    return "\n".join(lines)


MAX_COMMENTS = 100


class MarkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Hunks to mark as reviewed, or not, and the records behind them."""

    hunks: list[str]
    reviewed: bool
    records: list[str] = []


class RevertBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A hunk of a range, or of what no commit has for an empty range, to take back."""

    hunk: str
    range: str = ""


class CommentsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Comments for the agent of a session."""

    session: str
    comments: list[reviews.ReviewComment]


def mark_hunks(request: PageRequest, body: MarkBody) -> dict[str, Any]:
    with request.repositories.open_gate(request.one_repository) as gate:
        reviews.mark_reviewed(gate.state, body.hunks, body.records, reviewed=body.reviewed)
    return {"hunks": body.hunks, "reviewed": body.reviewed}


def send_message(request: PageRequest, body: CommentsBody) -> dict[str, Any]:
    if not 0 < len(body.comments) <= MAX_COMMENTS or not all(each.text.strip() for each in body.comments):
        raise Refused(400, f"a message has 1 to {MAX_COMMENTS} comments, none of them empty")
    with request.repositories.open_gate(request.one_repository) as gate:
        try:
            message = reviews.send_comments(gate, SessionKey(body.session), body.comments)
        except reviews.ReviewRefused as refused:
            raise Refused(400, str(refused), "shorten the comments, or send fewer") from None
    return {"session": body.session, "comments": len(body.comments), "message": message}


def revert_hunk(request: PageRequest, body: RevertBody) -> dict[str, Any]:
    with request.repositories.open_gate(request.one_repository) as gate:
        git = Git(gate.workspace.root)
        try:
            ends = find_ends(git, body.range or None)
            found = next((each for each in read_hunk_patches(git, ends) if body.hunk in each.ids), None)
            if found is None:
                raise Refused(409, "this hunk is there no more", "load the page again")
            before, after = read_sides(git, ends, found, found.ids.index(body.hunk))
            done = revert_change(gate, found.path, before, after, body.hunk)
        except CannotUndo as error:
            raise Refused(409, f"the hunk cannot be taken back: {error}", "take it back by hand") from None
        except (GitError, RestoreRunning) as error:
            raise Refused(409, str(error).partition("\n")[0], "try again") from None
    if done.failed:
        raise Refused(500, f"the hunk was not taken back: {'; '.join(done.failed.values())}", "run `remit doctor`")
    return {"hunk": body.hunk, "path": quote_path(found.path), "saved": done.saved.id}


def read_sides(git: Git, ends: CompareEnds, changed: HunkPatch, position: int) -> tuple[bytes | None, bytes | None]:
    """Return the file without the hunk and with it, as the tip has it; None for no file. Raises Refused, GitError,
    OSError.
    """
    patch = changed.patch
    if patch.path is None:
        # The file is gone: its only change is its removal.
        return git.run("cat-file", "blob", f"{ends.base}:./{patch.source}"), None
    if ends.tip:
        after = git.run("cat-file", "blob", f"{ends.tip}:./{patch.path}")
    else:
        after = (git.folder / patch.path).read_bytes()
    if patch.source is None:
        return None, after
    if patch.source != patch.path:
        raise Refused(409, "the file was renamed", "take the change back by hand")
    hunk = patch.hunks[position]
    base = split_at_newlines(git.run("cat-file", "blob", f"{ends.base}:./{patch.source}"))
    old = [base[number - 1] for number in hunk.old_range]
    lines = split_at_newlines(after)
    changed_lines = {number for each in patch.hunks for number in each.new_range}
    unchanged = next((line for number, line in enumerate(lines, 1) if number not in changed_lines), b"")
    if unchanged.endswith(b"\r\n") and not any(line.endswith(b"\r\n") for line in base):
        old = [line.replace(b"\n", b"\r\n") for line in old]  # git converts the line ends of this file
    start = hunk.new_range.start - 1
    return b"".join((*lines[:start], *old, *lines[start + hunk.new_lines :])), after


def split_at_newlines(content: bytes) -> list[bytes]:
    return re.findall(rb"[^\n]*\n|[^\n]+", content)
