"""Hunks of a change under review, of a range of commits or not committed yet, with their authors.

A hunk's id depends on path and lines alone: the id survives changes of lines above the hunk.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from remit.core.diff.contents import Hunk, sha256, split_lines
from remit.core.redaction import redact
from remit.core.untrusted_input import quote_path
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.notes.added_lines import PATCH_OPTIONS, PREFIX_OPTIONS, FilePatch, parse_patches
from remit.provenance.origins.evidence_grades import Attribution
from remit.provenance.verify.change_rules import resolve_range
from remit.provenance.verify.range_evidence import calls_between
from remit.provenance.verify.rules import CommitRange, LinePosition
from remit.workspace.git.command import Git, GitError

CONTEXT_LINES = 3
MAX_HUNKS = 2000
MAX_UNTRACKED_FILES, MAX_UNTRACKED_BYTES = 400, 1 << 20
MAX_WHOLE_LINES = 4000  # files with more lines are blamed at the hunks alone
WORK_TREE = "0" * 40
LINELESS = "binary, empty, too large, or only of another mode"
DIFF_OPTIONS = tuple(option for option in PATCH_OPTIONS if option not in ("-r", "--root", "-c"))


class HunkAuthor(Struct, frozen=True):
    """The author of a hunk's added lines, or of its removal; `mixed` for lines of several origins."""

    origin: Literal["ai", "human", "mixed", "unknown"] = "unknown"
    agent: str | None = None
    model: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    grade: str | None = None
    record: str | None = None
    records: tuple[str, ...] = ()
    """All records behind the lines; `record` has most of an agent's."""


class ChangedHunk(Struct, frozen=True):
    """A hunk with the lines around it. `source` is the file's name before, empty for a new file; `path` is the name
    now, or of the removed file.
    """

    id: str
    path: str
    source: str
    hunk: Hunk
    old: tuple[str, ...]
    new: tuple[str, ...]
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    author: HunkAuthor = field(default_factory=HunkAuthor)


class CompareEnds(Struct, frozen=True):
    """The two ends of a comparison: a commit, or the empty tree; and a commit, or the work tree for an empty name."""

    base: str
    tip: str = ""


class HunkPatch(Struct, frozen=True):
    """A patch of a file with the ids of its hunks."""

    patch: FilePatch
    ids: tuple[str, ...]

    @property
    def path(self) -> str:
        return self.patch.path or self.patch.source or ""


def find_ends(git: Git, wanted: str | None) -> CompareEnds:
    """Return the ends of a range, or without one of what is not committed. Raises GitError."""
    tip, base = resolve_range(git, wanted) if wanted is not None else ("", git.read_head() or "")
    return CompareEnds(base or git.text("hash-object", "-t", "tree", "--stdin"), tip)


def read_hunk_patches(git: Git, ends: CompareEnds) -> Iterator[HunkPatch]:
    """Yield each changed file of the comparison, untracked files with the work tree. Raises GitError."""
    tips = [ends.tip] if ends.tip else []
    options = (*DIFF_OPTIONS, *PREFIX_OPTIONS, "-M", "--relative", "--submodule=short", "--ignore-submodules=dirty")
    patches = list(parse_patches(git.run("diff", *options, ends.base, *tips, "--")))
    if not ends.tip:
        patches += read_untracked_files(git)
    for patch in patches:
        seen: Counter[str] = Counter()
        ids: list[str] = []
        for old, new in split_hunks(patch):
            content = b"\0".join((str(patch.path or patch.source).encode("utf-8", "replace"), *old, b"", *new))
            name = sha256(content)[:16]
            ids.append(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
        yield HunkPatch(patch, tuple(ids))


def split_hunks(patch: FilePatch) -> Iterator[tuple[list[bytes], list[bytes]]]:
    old = new = 0
    for hunk in patch.hunks:
        yield patch.old[old : old + hunk.old_lines], patch.new[new : new + hunk.new_lines]
        old, new = old + hunk.old_lines, new + hunk.new_lines


def read_untracked_files(git: Git) -> Iterator[FilePatch]:
    """Yield files neither tracked nor ignored by git as patches with every line added; an unshowable file has none."""
    listed = git.run("ls-files", "-z", "--others", "--exclude-standard").decode("utf-8", "surrogateescape").split("\0")
    for number, name in enumerate(filter(None, listed)):
        content = read_new_file(git.folder / name) if number < MAX_UNTRACKED_FILES else b""
        lines = [] if b"\0" in content else split_lines(content)
        hunks = [Hunk(0, 0, 1, len(lines))] if lines else []
        yield FilePatch(path=name, hunks=hunks, old=[], new=list(lines), merged=[])


def read_new_file(path: Path) -> bytes:
    """Return the bytes of a regular file within the size limit; otherwise empty."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_UNTRACKED_BYTES:
            return b""
        return path.read_bytes()
    except OSError:
        return b""


class LinelessChange(Struct, frozen=True):
    """A changed file without lines to show, and why."""

    path: str
    what: str


class ReviewedHunks(Struct, frozen=True):
    """The hunks of a comparison with their authors, changed files without lines to show, and how many more hunks there
    are.
    """

    ends: CompareEnds
    hunks: list[ChangedHunk]
    lineless: list[LinelessChange]
    left_out: int


def list_changed_hunks(blamer: Blamer, ends: CompareEnds, patterns: Sequence[re.Pattern[str]] = ()) -> ReviewedHunks:
    """Return the hunks of a comparison, without secrets. Raises GitError."""
    found: list[ChangedHunk] = []
    patches = list(read_hunk_patches(blamer.git, ends))
    left_out = 0
    for each in patches:
        if len(found) + len(each.ids) > MAX_HUNKS:
            left_out += len(each.ids)
        else:
            found += describe_hunks(blamer, ends, each, patterns)
    lineless = list(list_lineless_changes(blamer.git, ends, patches))
    return ReviewedHunks(ends, found, lineless, left_out)


def list_lineless_changes(git: Git, ends: CompareEnds, patches: Sequence[HunkPatch]) -> Iterator[LinelessChange]:
    """Yield the changed files without a hunk. A patch without lines does not name its file. Raises GitError."""
    shown = {each.path for each in patches if each.ids}
    tips = [ends.tip] if ends.tip else []
    options = ("--name-status", "-z", "-M", "--relative", "--no-ext-diff", "--ignore-submodules=dirty")
    fields = iter(git.run("diff", *options, ends.base, *tips, "--").decode("utf-8", "surrogateescape").split("\0"))
    untracked = [each.path for each in patches if not each.ids and each.path and each.patch.source is None]
    for status in fields:
        if not status:
            break
        source = next(fields) if status[0] in "RC" else ""
        path = next(fields, "")
        if path not in shown:
            yield LinelessChange(quote_path(path), f"renamed from {quote_path(source)}" if source else LINELESS)
    for path in untracked:
        yield LinelessChange(quote_path(path), LINELESS)


def describe_hunks(
    blamer: Blamer, ends: CompareEnds, changed: HunkPatch, patterns: Sequence[re.Pattern[str]]
) -> Iterator[ChangedHunk]:
    patch = changed.patch
    name = f"{ends.tip or WORK_TREE}:{blamer.attributor.prefix.path_in_tree(changed.path)}"
    blamer.attributor.load_named([name])
    lines = blamer.attributor.lines_of_name(name)
    authors = list_authors(blamer, ends, patch, len(lines))
    starts = [hunk.new_range.start for hunk in patch.hunks]
    ends_at = [hunk.new_range.stop for hunk in patch.hunks]
    for at, (hunk_id, hunk, (old, new)) in enumerate(zip(changed.ids, patch.hunks, split_hunks(patch), strict=True)):
        floor = ends_at[at - 1] if at else 1
        ceiling = starts[at + 1] if at + 1 < len(starts) else len(lines) + 1
        above = lines[max(floor, starts[at] - CONTEXT_LINES, 1) - 1 : starts[at] - 1]
        below = lines[ends_at[at] - 1 : min(ceiling, ends_at[at] + CONTEXT_LINES) - 1]
        texts = (clean_lines(part, patterns) for part in (old, new, above, below))
        yield ChangedHunk(
            hunk_id,
            quote_path(changed.path),
            quote_path(patch.source or ""),
            hunk,
            *texts,
            author=authors[at],
        )


def clean_lines(lines: Sequence[bytes], patterns: Sequence[re.Pattern[str]]) -> tuple[str, ...]:
    if not lines:
        return ()
    text = "\n".join(line.decode("utf-8", "replace").removesuffix("\n") for line in lines)
    return tuple(redact(text, patterns).split("\n"))


def list_authors(blamer: Blamer, ends: CompareEnds, patch: FilePatch, total: int) -> list[HunkAuthor]:
    by_line: dict[int, BlamedLine] = {}
    spans = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in patch.hunks if hunk.new_lines]
    if patch.path is not None and spans:
        ranges = [f"-L{first},{last}" for first, last in spans] if total > MAX_WHOLE_LINES else []
        try:
            blamed = blamer.blame(patch.path, [*ranges, *([ends.tip] if ends.tip else [])])
            by_line = {line.line: line for line in blamed}
        except GitError:
            by_line = {}
    removal: HunkAuthor | None = None
    authors: list[HunkAuthor] = []
    for hunk in patch.hunks:
        lines = [by_line[n] for n in hunk.new_range if n in by_line]
        if not hunk.new_lines and removal is None:
            removal = find_remover(blamer, ends, patch)
        authors.append(join_authors(lines) if hunk.new_lines else removal or HunkAuthor())
    return authors


def join_authors(lines: Sequence[BlamedLine]) -> HunkAuthor:
    worded = [line for line in lines if line.content.strip()] or list(lines)
    origins = {line.origin for line in worded}
    by_agents = Counter(line.record for line in worded if line.origin in ("ai", "mixed"))
    records = tuple(dict.fromkeys(line.record for line in worded if line.record))
    if not by_agents:
        origin = "human" if origins == {"human"} else "mixed" if "human" in origins else "unknown"
        return HunkAuthor(origin, records=records)
    record = by_agents.most_common(1)[0][0]
    line = next(line for line in worded if line.record == record and line.origin in ("ai", "mixed"))
    origin = "ai" if origins == {"ai"} else "mixed"
    return HunkAuthor(origin, line.agent, line.model, line.session_id, line.intent_id, line.grade, record, records)


def find_remover(blamer: Blamer, ends: CompareEnds, patch: FilePatch) -> HunkAuthor:
    prefix = blamer.attributor.prefix
    names = [
        None if path is None else f"{commit}:{prefix.path_in_tree(path)}"
        for commit, path in ((ends.base, patch.source), (ends.tip or WORK_TREE, patch.path))
    ]
    blamer.attributor.load_named(name for name in names if name)
    before, after = (blamer.attributor.blobs_by_name.get(name) if name else None for name in names)
    calls = calls_between(blamer.attributor, patch.path or patch.source or "", before, after)
    fields = blamer.describe_record(Attribution(calls[0], "exact"), blamer.load_records(calls[:1])) if calls else ()
    return replace(join_authors([BlamedLine(0, "-", "", *fields)]), grade=None) if fields else HunkAuthor()


def find_uncommitted_range(hunks: Sequence[ChangedHunk]) -> CommitRange:
    """Return the records behind hunks that no commit has, with the first line of each."""
    spots: dict[str, list[LinePosition]] = {}
    for hunk in hunks:
        for record in hunk.author.records:
            positions = spots.setdefault(record, [])
            if all(position.path != hunk.path for position in positions):
                positions.append(LinePosition("", hunk.path, hunk.hunk.new_range.start))
    return CommitRange((), spots, frozenset(hunk.path for hunk in hunks))
