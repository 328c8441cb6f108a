"""A re-enacted history that is rewritten afterwards: what blame said of each line before, and what it says then.

The commits are enacted one after the other, merges as one commit each. Each rewrite starts from a copy of the result.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .lines import PERSON
from .reenact import Enacted, Mode
from .reenact_report import SAFE_CLASSES, percent, told
from .reenact_truth import Asked, ask
from .replay import named
from .scenario import CLASSES
from .world import World

SUBFOLDER = "moved/here"
MAX_SHOWN = 12
INDENT = b"    "
MAINLINE_LINE = b"mainline line %d of a person"

Layout = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Rewritten:
    """What became of the files: the folder that they lie in, the layout of each line, and the lines that came."""

    folder: str = ""
    layout: Layout = bytes
    added: frozenset[bytes] = frozenset()


Rewrite = Callable[[World, str, Sequence[str]], Rewritten]
"""Rewrites a branch from its base; the paths are those of its text files."""


def rebase_on_changed_files(world: World, base: str, paths: Sequence[str]) -> Rewritten:
    """A mainline puts a person's lines at the top, in the middle and at the end of each file."""
    world.git("checkout", "-q", "-b", "mainline", base)
    fresh: set[bytes] = set()
    for path in paths:
        file = world.root / path
        if not file.is_file():
            continue
        lines = file.read_bytes().split(b"\n")
        for at in (len(lines) - 1, len(lines) // 2, 0):
            fresh.add(text := MAINLINE_LINE % len(fresh))
            lines.insert(at, text)
        file.write_bytes(b"\n".join(lines))
    world.commit(message="mainline")
    world.git("checkout", "-q", "main")
    world.git("-c", "rerere.enabled=false", "rebase", "-q", "-X", "theirs", "--empty=drop", "mainline")
    return Rewritten(added=frozenset(fresh))


def squash(world: World, base: str, paths: Sequence[str]) -> Rewritten:
    world.git("reset", "-q", "--soft", base)
    world.git("commit", "-q", "-m", "all in one")
    return Rewritten()


def squash_interactively(world: World, base: str, paths: Sequence[str]) -> Rewritten:
    script = "sed -i -e '2,$s/^pick/squash/'"
    world.git("rebase", "-q", "-i", base, GIT_SEQUENCE_EDITOR=script, GIT_EDITOR="true")
    return Rewritten()


def pick(world: World, base: str, paths: Sequence[str]) -> Rewritten:
    world.git("checkout", "-q", "-b", "picked", base)
    world.git("commit", "-q", "--allow-empty", "-m", "another base")
    world.git("cherry-pick", "--allow-empty", "--keep-redundant-commits", f"{base}..main")
    return Rewritten()


def move_to_subfolder(world: World, base: str, paths: Sequence[str]) -> Rewritten:
    """The whole history, as `git filter-repo --to-subdirectory-filter` does: each commit is a new one."""
    script = f'git read-tree --empty && git read-tree --prefix={SUBFOLDER}/ "$GIT_COMMIT"'
    world.git("filter-branch", "-f", "--index-filter", script, "--", "main", FILTER_BRANCH_SQUELCH_WARNING="1")
    world.git("update-ref", "-d", "refs/original/refs/heads/main")
    world.git("reset", "-q", "--hard")
    world.git("reflog", "expire", "--expire=now", "--all")
    return Rewritten(f"{SUBFOLDER}/")


def indent(line: bytes) -> bytes:
    return INDENT + line if line.strip() else line


def indent_everything(world: World, base: str, paths: Sequence[str]) -> Rewritten:
    """A person lays every file out anew."""
    for path in paths:
        file = world.root / path
        file.write_bytes(b"\n".join(map(indent, file.read_bytes().split(b"\n"))))
    world.commit(message="indented")
    return Rewritten(layout=indent)


REWRITES: Mapping[str, Rewrite] = {
    "rebase on changed files": rebase_on_changed_files,
    "squash by reset --soft": squash,
    "squash, interactive": squash_interactively,
    "cherry-pick": pick,
    "move to a subfolder": move_to_subfolder,
    "indent everything": indent_everything,
}


@dataclass
class Outcome:
    """The figures of one rewrite. `kept` and `before` are agents' lines that are told right."""

    name: str
    agent_lines: int = 0
    before: int = 0
    kept: int = 0
    wrong_agent: int = 0
    false_human: int = 0
    false_ai: Counter[str] = field(default_factory=Counter[str])
    """By class of grades, the lines called an agent's that were not before."""
    left_out: int = 0
    """Lines of files that the rewrite did not leave as foreseen."""
    lost: list[str] = field(default_factory=list[str])
    false: list[str] = field(default_factory=list[str])

    def count(self, old: Asked, new: Asked) -> None:
        verdict = new.verdict
        if new.who.kind == "ai":
            self.agent_lines += 1
            self.before += old.verdict == "right"
            self.kept += verdict == "right"
            self.wrong_agent += verdict == "wrong agent"
            self.false_human += verdict == "false human"
            if verdict != "right" and old.verdict == "right":
                self.lost.append(f"{verdict}: {told(new)}")
        elif verdict in ("false AI", "old AI") and old.verdict not in ("false AI", "old AI"):
            self.false_ai[CLASSES.get(new.claim.grade or "", "-")] += 1
            self.false.append(f"{verdict}: {told(new)}")

    @property
    def broken_promises(self) -> int:
        return self.false_human + sum(self.false_ai[name] for name in SAFE_CLASSES)


@dataclass(frozen=True)
class Reworked:
    """The outcomes of one repository."""

    name: str
    commits: int
    outcomes: Sequence[Outcome]


def rework(repository: Path, commits: int, seed: int, mode: Mode, only: Sequence[str]) -> Reworked:
    """Enact a history and rewrite it in each way, or in those that are named."""
    with tempfile.TemporaryDirectory(prefix="provbench-") as folder:
        root = Path(folder).resolve()
        enacted = Enacted(repository, root / "world", commits, seed, mode, first_parent=True)
        enacted.run()
        before, _ = ask(enacted)
        outcomes = [rewrite_copy(enacted, before, name, root) for name in REWRITES if not only or name in only]
        return Reworked(named(repository), len(enacted.names), outcomes)


def rewrite_copy(enacted: Enacted, before: Sequence[Asked], name: str, root: Path) -> Outcome:
    """Rewrite the history in the place where it was enacted, and put it back."""
    world, outcome = enacted.world, Outcome(name)
    by_path: dict[str, list[Asked]] = {}
    for line in before:
        by_path.setdefault(line.path, []).append(line)
    kept = root / "kept"
    shutil.copytree(world.root, kept, symlinks=True)
    try:
        rewritten = REWRITES[name](world, enacted.names[0][1], list(by_path))
        for path, lines in by_path.items():
            count_file(enacted, outcome, rewritten, path, lines)
    finally:
        shutil.rmtree(world.root)
        kept.rename(world.root)
    return outcome


def count_file(enacted: Enacted, outcome: Outcome, rewritten: Rewritten, path: str, lines: Sequence[Asked]) -> None:
    place = rewritten.folder + path
    file = enacted.world.root / place
    texts = file.read_bytes().removesuffix(b"\n").split(b"\n") if file.is_file() else []
    pairs = list(pair_lines(lines, texts, rewritten))
    if [line.text if line else None for line, _ in pairs if line] != [line.text for line in lines]:
        outcome.left_out += len(lines)
        return
    claims = enacted.tool.blame(enacted.world.root, place)
    for (line, text), claim in zip(pairs, claims, strict=True):
        old = line or replace(lines[0], text=text, who=PERSON, claim=replace(claim, origin="unknown"))
        outcome.count(old, replace(old, path=place, text=text, claim=claim))


def pair_lines(
    lines: Sequence[Asked], texts: Sequence[bytes], rewritten: Rewritten
) -> Iterator[tuple[Asked | None, bytes]]:
    """Yield each line of a rewritten file with the line that it was; None for one that came."""
    remaining = iter(lines)
    for text in texts:
        if text in rewritten.added:
            yield None, text
        elif (line := next(remaining, None)) and rewritten.layout(line.text) == text:
            yield line, text


def lines_of(report: Reworked) -> list[str]:
    """The report for people."""
    found = [f"rewritten {report.name}: {report.commits} commits"]
    for o in report.outcomes:
        false = ", ".join(f"{count} {grade}" for grade, count in sorted(o.false_ai.items())) or "none"
        found += [
            f"  {o.name}: {o.kept} of {o.agent_lines} agent lines ({percent(o.kept, o.agent_lines)}; before "
            f"{percent(o.before, o.agent_lines)}), new false AI {false}, wrong agent {o.wrong_agent}, false human "
            f"{o.false_human}, not compared {o.left_out}",
            *(f"    {text}" for text in [*o.lost[:MAX_SHOWN], *o.false[:MAX_SHOWN]]),
        ]
    return found


def as_document(report: Reworked) -> dict[str, Any]:
    """The report for programs."""
    return {**vars(report), "outcomes": list(map(vars, report.outcomes))}
