"""How an agent's call says a change of a real file: an edit names text that stands there once, a patch its context."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from .lines import Line, texts
from .real_history import differences, whole
from .tools import Session
from .world import BrokenScenario, Call

CONTEXTS = (3, 6, 12, 25, 60)
NEAR = 6
"""Changes with so few lines between them share a hunk."""


@dataclass(frozen=True)
class Region:
    """Old lines `at` to `end`, in whose place new lines `to` to `stop` come."""

    at: int
    end: int
    to: int
    stop: int


def around(regions: Sequence[Region]) -> Region:
    """From the first of them to the last."""
    return Region(regions[0].at, regions[-1].end, regions[0].to, regions[-1].stop)


Swap = tuple[str, str]
"""A text that stands once in the file, and what comes in its place."""


@dataclass(frozen=True)
class Edit:
    """One file's change that is to be said: the lines before and after, by what they are."""

    root: Path
    path: str
    old: Sequence[Line]
    new: Sequence[Line]
    exists: bool

    @property
    def before(self) -> tuple[bytes, ...]:
        return texts(self.old)

    @property
    def after(self) -> tuple[bytes, ...]:
        return texts(self.new)

    @property
    def file(self) -> str:
        return str(self.root / self.path)

    @property
    def content(self) -> str:
        return whole(self.after).decode()

    @property
    def regions(self) -> list[Region]:
        matcher = SequenceMatcher(None, list(map(id, self.old)), list(map(id, self.new)), autojunk=False)
        return [Region(*places) for tag, *places in matcher.get_opcodes() if tag != "equal"]


def swaps(edit: Edit, rng: random.Random, *, one: bool) -> list[Swap] | None:
    """The edit as replacements, the last place first; None where no text tells a place from all others."""
    regions = edit.regions
    if one:
        regions = [around(regions)]
    current, found = list(edit.before), list[Swap]()
    for region in reversed(regions):
        swap = swap_of(current, edit.after, region, rng)
        if swap is None:
            return None
        found.append(swap)
        current[region.at : region.end] = edit.after[region.to : region.stop]
    return found


def swap_of(old: Sequence[bytes], new: Sequence[bytes], region: Region, rng: random.Random) -> Swap | None:
    """One replacement, with as many lines around it as it takes to tell its place."""
    content, put = whole(old), list(new[region.to : region.stop])
    wanted = whole([*old[: region.at], *put, *old[region.end :]])
    least = int(region.at == region.end or not put or rng.random() < 0.5)
    for context in range(least, len(old) + 1):
        low, high = max(0, region.at - context), min(len(old), region.end + context)
        a = b"\n".join(old[low:high])
        b = b"\n".join([*old[low : region.at], *put, *old[region.end : high]])
        if a and content.count(a) == 1 and content.replace(a, b) == wanted:
            return a.decode(), b.decode()
        if high - low == len(old):
            return None
    return None


def replaced(edit: Edit, found: Sequence[Swap]) -> Iterator[tuple[list[Line], list[Line]]]:
    """The lines that each replacement names, and those that come in their place: which of them stay it does not say.

    Raises BrokenScenario where they do not make the edit.
    """
    current, regions = list(edit.old), edit.regions
    if len(found) == 1:
        regions = [around(regions)]
    for (text, _), region in zip(found, reversed(regions), strict=True):
        content = whole(texts(current)).decode()
        low = content.count("\n", 0, content.index(text))
        high = low + text.count("\n") + 1
        put = edit.new[region.to : region.stop]
        yield current[low:high], [*current[low : region.at], *put, *current[region.end : high]]
        current[region.at : region.end] = put
    if texts(current) != edit.after:
        raise BrokenScenario(f"the replacements do not make {edit.path!r} what it is to be")


def write(session: Session, edit: Edit) -> Call:
    """The whole file."""
    if session.agent == "gemini":
        return "write_file", {"file_path": edit.file, "content": edit.content}, shown(edit)
    return "Write", {"file_path": edit.file, "content": edit.content}, answered(edit, "content", edit.content)


def replacement(session: Session, edit: Edit, found: Sequence[Swap]) -> Call:
    """An edit by replacements."""
    pairs = [{"old_string": a, "new_string": b} for a, b in found]
    if session.agent == "gemini":
        return "replace", {"file_path": edit.file, **pairs[0], "instruction": "as asked"}, shown(edit)
    if len(pairs) == 1:
        return "Edit", {"file_path": edit.file, **pairs[0], "replace_all": False}, answered(edit, "oldString", pairs[0])
    return "MultiEdit", {"file_path": edit.file, "edits": pairs}, answered(edit, "edits", pairs)


def shell(session: Session, text: str) -> Call:
    """A command that prints nothing."""
    if session.agent == "gemini":
        return "run_shell_command", {"command": text}, {"llmContent": "Output: (empty)", "returnDisplay": ""}
    return "Bash", {"command": text}, {"stdout": "", "stderr": "", "interrupted": False}


def answered(edit: Edit, name: str, value: Any) -> dict[str, Any]:
    """What Claude Code's tools answer: with the hunks of a diff of both contents, none for a new file."""
    found = differences(edit.before, edit.after, 3) if edit.exists else []
    told = [
        {
            "oldStart": hunk.at + 1,
            "oldLines": hunk.count,
            "newStart": hunk.to + 1,
            "newLines": hunk.size,
            "lines": [line.decode() for line in hunk.signed],
        }
        for hunk in found
    ]
    kind = "update" if edit.exists else "create"
    return {"type": kind, "filePath": edit.file, name: value, "structuredPatch": told, "userModified": False}


def shown(edit: Edit) -> dict[str, Any]:
    """What Gemini CLI's tools answer."""
    diff = f"--- {edit.path}\tCurrent\n+++ {edit.path}\tProposed\n{unified(edit)}"
    display = {"fileDiff": diff, "fileName": edit.path.rpartition("/")[2], "filePath": edit.file}
    return {"llmContent": f"Successfully modified file: {edit.file}", "returnDisplay": display}


def unified(edit: Edit) -> str:
    """The hunks of a diff of both contents, as `diff -u` prints them."""
    return whole([line for h in differences(edit.before, edit.after, 3) for line in (h.head, *h.signed)]).decode()


def v4a(edit: Edit, rng: random.Random) -> Call | None:
    """The edit as `apply_patch` takes it; None where no context tells a place from the ones before it."""
    if edit.exists:
        hunks = v4a_hunks(edit) if edit.old and edit.new else None
        if hunks is None:
            return None
        body = [f"*** Update File: {rng.choice((edit.path, edit.file))}", *hunks]
    else:
        body = [f"*** Add File: {edit.file}", *(f"+{text.decode()}" for text in edit.after)]
    done = f"Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM {edit.path}\n"
    return "apply_patch", {"command": "\n".join(["*** Begin Patch", *body, "*** End Patch"])}, done


def v4a_hunks(edit: Edit) -> list[str] | None:
    """The hunks of that patch: the first place from the last hunk on that looks like one's old lines has to be its."""
    groups: list[list[Region]] = []
    for region in edit.regions:
        if groups and region.at - groups[-1][-1].end <= NEAR:
            groups[-1].append(region)
        else:
            groups.append([region])
    body: list[str] = []
    done = 0
    for group, limit in zip(groups, [*(g[0].at for g in groups[1:]), len(edit.old)], strict=True):
        spans = ((max(done, group[0].at - n), min(limit, group[-1].end + n)) for n in CONTEXTS)
        span = next((s for s in spans if is_first(edit.before, done, s)), None)
        if span is None:
            return None
        body += ["@@", *signed(edit, group, span)]
        done = span[1]
    return body


def is_first(old: Sequence[bytes], start: int, span: tuple[int, int]) -> bool:
    """Whether those lines stand nowhere before, from `start` on."""
    low, high = span
    return low < high and all(old[n : n + high - low] != old[low:high] for n in range(start, low))


def signed(edit: Edit, group: Sequence[Region], span: tuple[int, int]) -> list[str]:
    """The lines of one hunk."""
    found: list[bytes] = []
    at = span[0]
    for region in group:
        found += [b" " + text for text in edit.before[at : region.at]]
        found += [b"-" + text for text in edit.before[region.at : region.end]]
        found += [b"+" + text for text in edit.after[region.to : region.stop]]
        at = region.end
    return [line.decode() for line in [*found, *(b" " + text for text in edit.before[at : span[1]])]]
