"""Figures: how much of the code at HEAD is whose, and what the ledger counts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.reader import lines
from remit.provenance.blame import Blamer
from remit.workspace.git import Git, GitError

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class FileShare(Struct, frozen=True):
    """One file at HEAD: its lines, and how many of them an agent is known to have written."""

    path: str
    lines: int
    ai: int
    by_agent: dict[str, int] = {}
    by_intent: dict[str, int] = {}


class Figures(Struct, frozen=True):
    """Lines at HEAD by origin, agent and intent, and records by event, verdict and rule.

    `files` are those with a line of an agent, most first. What is not `ai` is unknown: nobody saw it written.
    """

    lines: int
    ai: int
    files: tuple[FileShare, ...]
    by_agent: dict[str, int]
    by_intent: dict[str, int]
    records: int
    by_event: dict[str, int]
    by_verdict: dict[str, int]
    by_violation: dict[str, int]


class Counts(Struct, frozen=True):
    """What the log holds, and the files that it has mutations of."""

    events: Counter[str]
    verdicts: Counter[str]
    violations: Counter[str]
    paths: frozenset[str]


def measure(blamer: Blamer, log: Path, within: Sequence[str] = ()) -> Figures:
    """All figures; lines only of the files `within` (git's pathspecs), all of them by default. Raises GitError."""
    sizes = line_counts(blamer.git, within)
    counts = count(log)
    shares = [share(blamer, path) for path in sorted(counts.paths & sizes.keys())]
    known = sorted((s for s in shares if s.ai), key=lambda s: (-s.ai, s.path))
    return Figures(
        lines=sum(sizes.values()),
        ai=sum(s.ai for s in known),
        files=tuple(known),
        by_agent=summed(s.by_agent for s in known),
        by_intent=summed(s.by_intent for s in known),
        records=sum(counts.events.values()),
        by_event=dict(counts.events.most_common()),
        by_verdict=dict(counts.verdicts.most_common()),
        by_violation=dict(counts.violations.most_common()),
    )


def line_counts(git: Git, within: Sequence[str]) -> dict[str, int]:
    """The lines of each text file at HEAD. Empty before the first commit. Raises GitError."""
    if git.head() is None:
        return {}
    out = git.run("diff", "--numstat", "--no-renames", "--no-textconv", "-z", EMPTY_TREE, "HEAD", "--", *within)
    rows = (row.split("\t", 2) for row in out.decode("utf-8", "surrogateescape").split("\0") if row)
    return {path: int(added) for added, _, path in rows if added.isdigit()}


def share(blamer: Blamer, path: str) -> FileShare:
    """How much of one file at HEAD is whose; nothing is known where git cannot blame it."""
    try:
        blamed = blamer.blame(path, ["HEAD"])
    except GitError:
        return FileShare(path, 0, 0)
    known = [line for line in blamed if line.origin == "ai"]
    agents = Counter(line.agent or "unknown" for line in known)
    intents = Counter(line.intent_id or "none" for line in known)
    return FileShare(path, len(blamed), len(known), dict(agents), dict(intents))


def count(log: Path) -> Counts:
    """What the log holds."""
    events, verdicts, violations, paths = Counter[str](), Counter[str](), Counter[str](), set[str]()
    for line in lines(log):
        body = body_of(line.raw)
        events[str(body.get("event"))] += 1
        decision: dict[str, Any] = body.get("decision", {})
        if decision:
            verdicts[str(decision.get("verdict"))] += 1
        if body.get("event") == "denied":
            violations[str(body.get("violation", {}).get("error_type"))] += 1
        if body.get("event") == "mutation":
            paths.update(str(f.get("path")) for f in body.get("files", []))
    return Counts(events, verdicts, violations, frozenset(paths))


def body_of(raw: bytes) -> dict[str, Any]:
    """Remit's part of a line; empty where it is no record, which is `verify`'s to report."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])["metadata"][KEY]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return {}


def summed(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sum of counts, the most first."""
    total = Counter[str]()
    for part in parts:
        total.update(part)
    return dict(total.most_common())


class Refusable(Struct, frozen=True):
    """What enforce would have said of the calls that were let through in `observe` and `warn`.

    `by_rule` counts each rule that objected; `examples` are the newest calls, a few of each verdict and rule.
    """

    calls: int
    refused: int
    asked: int
    by_rule: dict[str, int]
    sessions: dict[str, int]
    examples: tuple[str, ...]


def would_refuse(log: Path, most: int = 5) -> Refusable:
    """What `mode suggest` tells."""
    bodies = [body for line in lines(log) if (body := body_of(line.raw)).get("event") == "tool_use"]
    passed = [b for b in bodies if b.get("decision", {}).get("mode") in ("observe", "warn")]
    strict = [b for b in passed if b["decision"].get("verdict") in ("deny", "ask")]
    return Refusable(
        calls=len(passed),
        refused=sum(b["decision"]["verdict"] == "deny" for b in strict),
        asked=sum(b["decision"]["verdict"] == "ask" for b in strict),
        by_rule=dict(Counter(str(rule) for b in strict for rule in b["decision"].get("rules", [])).most_common()),
        sessions=dict(Counter(str(b.get("session_id")) for b in strict).most_common(5)),
        examples=tuple(map(example, reversed(strict[-most:]))),
    )


def example(body: dict[str, Any]) -> str:
    """One call in words."""
    call: dict[str, Any] = body.get("call", {})
    target = call.get("command") or " ".join(call.get("paths", []))
    return f"{', '.join(body['decision'].get('rules', []))}: {call.get('name')} {target}"[:160]


def proposed_scope(paths: Sequence[str]) -> tuple[str, ...]:
    """Patterns that own these files: a folder where several of them lie in it, else the file itself."""
    folders = Counter(path.rpartition("/")[0] for path in paths)
    wide = {folder for folder, number in folders.items() if folder and number > 1}
    top = {f for f in wide if not any(f.startswith(f"{other}/") for other in wide)}
    alone = [p for p in paths if not any(p.startswith(f"{folder}/") for folder in top)]
    return (*(f"{literal(folder)}/**" for folder in sorted(top)), *map(literal, alone))


def literal(path: str) -> str:
    """A pattern that is exactly this path."""
    return "".join(f"\\{c}" if c in "\\*?[]{},!" else c for c in path)
