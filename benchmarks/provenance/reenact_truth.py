"""What a tool says of every line of a re-enacted history, beside what `git blame` and the commits' writers say."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from remit.provenance.origins.blame_porcelain import FileVersion, read_git_lines

from .lines import PERSON, Author, Claim
from .real_gone import said
from .real_history import HEAD
from .reenact import SHARED, Enacted

Verdict = Literal["right", "unknown", "wrong agent", "false human", "false AI", "human", "old AI", "shared"]
Reason = Literal["moved", "same text", "layout or replaced", "unexplained"]

NEW_FILE = re.compile(rb"\+\+\+ (?:\"?b/(.*?)\"?|/dev/null)\t?$")
OLD_FILE = re.compile(rb"--- (?:\"?a/(.*?)\"?|/dev/null)\t?$")


@dataclass(frozen=True)
class Asked:
    """One line at the end. `version` and `at` are where git says that it came from."""

    path: str
    number: int
    text: bytes
    version: FileVersion
    at: int
    who: Author
    claim: Claim

    @property
    def verdict(self) -> Verdict:
        claim, who = self.claim, self.who
        if who == SHARED:
            return "shared"
        if who.kind == "ai":
            right = claim.session == who.session and claim.intent == who.intent
            by_origin: dict[str, Verdict] = {"unknown": "unknown", "human": "false human"}
            return by_origin.get(claim.origin, "right" if right else "wrong agent")
        if claim.origin == "ai":
            return "false AI" if who == PERSON else "old AI"
        return "human" if claim.origin == "human" else "unknown"


@dataclass(frozen=True)
class Timed:
    """How long one file took, in seconds."""

    path: str
    lines: int
    tool_s: float
    git_s: float


def ask(enacted: Enacted) -> tuple[list[Asked], list[Timed]]:
    """Every line of every text file at the end."""
    lines: list[Asked] = []
    times: list[Timed] = []
    named = enacted.repository.out("grep", "-I", "-l", "-z", "-e", "", "HEAD").decode("utf-8", "surrogateescape")
    for path in sorted(name.partition(":")[2] for name in named.split("\0") if name):
        if (enacted.world.root / path).is_symlink() or not (enacted.world.root / path).is_file():
            continue
        began = time.perf_counter()
        blamed = enacted.repository.out("blame", "--porcelain", "HEAD", "--", path)
        asked = time.perf_counter()
        claims = enacted.tool.blame(enacted.world.root, path)
        times.append(Timed(path, len(claims), time.perf_counter() - asked, asked - began))
        for line, claim in zip(read_git_lines(blamed), claims, strict=True):
            who = enacted.writer(line.version.commit, line.version.path, line.number)
            lines.append(Asked(path, line.line, line.content, line.version, line.number, who, claim))
    return lines, times


@dataclass(frozen=True)
class Replaced:
    """A hunk of a commit: the lines that it took out with their writers, and where in the new file it put others."""

    path: str
    start: int
    size: int
    gone: Sequence[tuple[bytes, Author]]


class Reasons:
    """Why a person's line may be called an agent's, from what git shows of its commit."""

    def __init__(self, enacted: Enacted, lines: Sequence[Asked]) -> None:
        self.enacted = enacted
        self.hunks: dict[str, list[Replaced]] = {}
        self.lines = {(line.path, line.number): line for line in lines}
        self.written = {agent: set(map(said, texts)) for agent, texts in enacted.written.items()}

    def reason(self, line: Asked) -> Reason:
        """An empty line and a `}` have the reason of the next lines that say something, if these are claimed alike."""
        if said(line.text):
            return self.own_reason(line)
        return self.own_reason(self.neighbour(line, 1) or self.neighbour(line, -1) or line)

    def neighbour(self, line: Asked, step: int) -> Asked | None:
        """The next line of the same commit that says something, if it is called the same agent's."""
        number = line.number + step
        while (found := self.lines.get((line.path, number))) and not said(found.text):
            number += step
        alike = found and (found.version, found.who, found.claim.session) == (
            line.version,
            line.who,
            line.claim.session,
        )
        return found if alike else None

    def own_reason(self, line: Asked) -> Reason:
        agent = Author("ai", line.claim.session, line.claim.intent)
        hunks = self.hunks_of(line.version.commit) if line.who == PERSON else []
        gone = [text for hunk in hunks for text, who in hunk.gone if who == agent]
        text, words = line.text.strip(), said(line.text)
        if text and text in {old.strip() for old in gone}:
            return "moved"
        if words and words in self.written.get(agent, ()):
            return "same text"
        around = [h for h in hunks if h.path == line.version.path and h.start <= line.at < h.start + h.size]
        replaced = any(who == agent for hunk in around for _, who in hunk.gone)
        if replaced or (words and words in b"".join(map(said, gone))):
            return "layout or replaced"
        return "unexplained"

    def hunks_of(self, commit: str) -> list[Replaced]:
        if commit not in self.hunks:
            parents = self.enacted.repository.out("rev-list", "--parents", "-n1", commit).decode().split()[1:]
            self.hunks[commit] = [hunk for parent in parents for hunk in self.hunks_between(parent, commit)]
        return self.hunks[commit]

    def hunks_between(self, parent: str, commit: str) -> list[Replaced]:
        shown = self.enacted.repository.out("-c", "core.quotePath=false", "diff", "-U0", "-M", parent, commit)
        old = new = ""
        found: list[tuple[str, str, list[int]]] = []
        for row in shown.split(b"\n"):
            if was := OLD_FILE.match(row):
                old = (was[1] or b"").decode("utf-8", "surrogateescape")
            elif now := NEW_FILE.match(row):
                new = (now[1] or b"").decode("utf-8", "surrogateescape")
            elif head := HEAD.match(row):
                found.append((old, new, [int(word) if word else 1 for word in head.groups()]))
        blamed = {path: self.blame(parent, path) for path in {old for old, _, numbers in found if numbers[1]} if path}
        return [
            Replaced(new, start, size, [blamed[old][n - 1] for n in range(at, at + count)] if count else [])
            for old, new, (at, count, start, size) in found
        ]

    def blame(self, commit: str, path: str) -> list[tuple[bytes, Author]]:
        lines = read_git_lines(self.enacted.repository.out("blame", "--porcelain", commit, "--", path))
        return [
            (line.content, self.enacted.writer(line.version.commit, line.version.path, line.number)) for line in lines
        ]
