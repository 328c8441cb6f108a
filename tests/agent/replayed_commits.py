"""Real commits as scripts of edit calls: what a model that makes no mistake would call, and what one with usual faults
would. A call either leaves the bytes of the commit, or is refused with what the next try needs.
"""

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from remit.core.call import SessionKey, ToolCall
from remit.core.diff.contents import decode_content, encode_content, find_edit_script, split_with_ends
from remit.core.diff.place import find_line_end
from remit.gate.gate import Gate
from remit_agent.models.messages import ToolCallPart
from remit_agent.session.offer import TOOLS
from remit_agent.tools.tool import ToolContext, ToolFailure

TEXT_TOOLS = ("edit", "edit_file", "search_replace")
WAYS = (*TEXT_TOOLS, "apply_diff", "V4A patch", "unified diff")
MAX_FILE_BYTES = 400_000
MAX_FILES = 40
CONTEXT = 2


class ChangedText(Struct, frozen=True):
    """A text file of a commit. None is a missing file."""

    path: str
    before: str | None
    after: str | None


class HunkText(Struct, frozen=True):
    """Lines of a file and what becomes of them; `first` is the index of the first."""

    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]


class ReplayedCommit(Struct, frozen=True):
    """A commit: its text files, and its diff as git says it."""

    name: str
    files: tuple[ChangedText, ...]
    diff: str


# --- reading commits --------------------------------------------------------------------------------------


def git(repository: Path, *arguments: str) -> bytes:
    words = ["git", "-c", "core.quotePath=off", f"--git-dir={repository}", *arguments]
    return subprocess.run(words, check=True, capture_output=True).stdout


def read_commits(repository: Path, most: int, left_out: Counter[str] | None = None) -> Iterator[ReplayedCommit]:
    """Yield commits that change text files, spread over the history; count what is left out by its reason."""
    names = git(repository, "rev-list", "--no-merges", "--min-parents=1", "HEAD").decode().split()
    made = 0
    for name in names[:: max(1, len(names) // (2 * most))]:
        if made == most:
            break
        commit = read_commit(repository, name)
        if isinstance(commit, ReplayedCommit):
            made += 1
            yield commit
        elif left_out is not None:
            left_out[f"left out: {commit}"] += 1


def read_commit(repository: Path, name: str) -> ReplayedCommit | str:
    """Return a commit, or why it is left out."""
    raw = git(repository, "diff-tree", "-r", "-z", "--no-renames", f"{name}^", name).decode("utf-8", "surrogateescape")
    parts = raw.split("\0")
    files: list[ChangedText] = []
    for head, path in zip(parts[::2], parts[1::2], strict=False):
        old_mode, new_mode, old, new, _ = head.removeprefix(":").split()
        if not {old_mode, new_mode} <= {"000000", "100644", "100755"} or "\n" in path:
            return "a link or module"
        sides = [None if not int(blob, 16) else git(repository, "cat-file", "blob", blob) for blob in (old, new)]
        if sides[0] == sides[1]:
            continue
        contents = [side for side in sides if side is not None]
        if any(b"\0" in side or not is_utf8(side) for side in contents):
            return "not UTF-8 text"
        if any(len(side) > MAX_FILE_BYTES for side in contents):
            return f"a file over {MAX_FILE_BYTES} bytes"
        files.append(ChangedText(path, *(None if side is None else side.decode() for side in sides)))
    if not files or len(files) > MAX_FILES:
        return f"over {MAX_FILES} files" if files else "only modes change"
    diff = git(repository, "diff", "--no-color", "--no-ext-diff", "-M", f"{name}^", name).decode()
    return ReplayedCommit(name, tuple(files), diff)


def is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


# --- scripts ----------------------------------------------------------------------------------------------


def find_hunks(before: str, after: str, context: int) -> list[HunkText]:
    """Return the hunks of a change, with so many lines of context, apart from each other."""
    old, new = split_with_ends(before), split_with_ends(after)
    script = find_edit_script([*map(encode_content, old)], [*map(encode_content, new)]) or []
    joined: list[list[int]] = []
    for old_start, old_end, new_start, new_end in script:
        if joined and old_start - joined[-1][1] <= 2 * context:
            joined[-1][1], joined[-1][3] = old_end, new_end
        else:
            joined.append([old_start, old_end, new_start, new_end])
    hunks: list[HunkText] = []
    for old_start, old_end, new_start, new_end in joined:
        head, tail = min(context, old_start), min(context, len(old) - old_end)
        part = old[old_start - head : old_end + tail], new[new_start - head : new_end + tail]
        hunks.append(HunkText(old_start - head, tuple(part[0]), tuple(part[1])))
    return hunks


def find_unique_hunks(before: str, after: str, least: int = CONTEXT) -> list[HunkText]:
    """Return hunks whose old text occurs once in the file, as somebody who reads it would quote them."""
    for context in (least, 4, 8, 16, 64, 10**6):
        hunks = find_hunks(before, after, context)
        if all(count_occurrences(before, "".join(hunk.old)) == 1 for hunk in hunks):
            return hunks
    return [HunkText(0, tuple(split_with_ends(before)), tuple(split_with_ends(after)))]


def count_occurrences(text: str, part: str) -> int:
    times, at = 0, text.find(part) if part else -1
    while at >= 0:
        times, at = times + 1, text.find(part, at + 1)
    return times


def escape_marks(lines: Sequence[str]) -> str:
    marks = ("<<<<<<<", "=======", ">>>>>>>", "-------", ":start_line:", "\\")
    return "".join(f"\\{line}" if line.startswith(marks) and needs_escape(line) else line for line in lines)


def needs_escape(line: str) -> bool:
    rest = line.lstrip("\\")
    return not line.startswith("\\") or rest.startswith(("<<<<<<<", "=======", ">>>>>>>", "-------", ":start_line:"))


def make_block(hunk: HunkText, *, with_line: bool = True) -> str:
    line = f":start_line:{hunk.first + 1}\n-------\n" if with_line else ""
    sides = (close(escape_marks(hunk.old)), close(escape_marks(hunk.new)))
    return f"<<<<<<< SEARCH\n{line}{sides[0]}=======\n{sides[1]}>>>>>>> REPLACE\n"


def close(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def make_v4a_hunk(hunk: HunkText) -> str:
    kept: list[str] = []
    old, new = list(hunk.old), list(hunk.new)
    script = find_edit_script([*map(encode_content, old)], [*map(encode_content, new)]) or []
    at = 0
    for old_start, old_end, new_start, new_end in script:
        kept += [f" {line}" for line in old[at:old_start]]
        kept += [f"-{line}" for line in old[old_start:old_end]] + [f"+{line}" for line in new[new_start:new_end]]
        at = old_end
    kept += [f" {line}" for line in old[at:]]
    return "@@\n" + "".join(map(close, kept))


def make_calls(way: str, file: ChangedText) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that make one file of a commit."""
    path, before, after = file.path, file.before, file.after
    if after is None:
        return [("apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"})]
    if not before or not after or not can_say(way, before, after):
        return [("write_to_file", {"path": path, "content": after})]
    hunks = find_unique_hunks(before, after)
    if way == "apply_diff":
        return [(way, {"path": path, "diff": "".join(map(make_block, hunks))})]
    if way == "V4A patch":
        text = "".join(map(make_v4a_hunk, hunks))
        return [("apply_patch", {"patch": f"*** Begin Patch\n*** Update File: {path}\n{text}*** End Patch"})]
    calls: list[tuple[str, dict[str, Any]]] = []
    text = before
    while text != after:  # each hunk is quoted from the file as it is by then
        hunk = find_unique_hunks(text, after)[0]
        old, new = "".join(hunk.old), "".join(hunk.new)
        calls.append((way, {"file_path": path, "old_string": old, "new_string": new}))
        text = text.replace(old, new, 1)
    return calls


def can_say(way: str, before: str, after: str) -> bool:
    """Return whether this tool's form can say the change: forms of lines say neither line ends nor the last one."""
    if way in TEXT_TOOLS:
        return all("".join(hunk.old).strip() for hunk in find_unique_hunks(before, after))
    plain = "\r" not in before and "\r" not in after
    return plain and before.endswith("\n") and after.endswith("\n") and "\x0b" not in before + after


# --- replaying --------------------------------------------------------------------------------------------


class Replayer:
    """An ungoverned workspace in which commits are made again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.gate = Gate.open(root)
        self.numbers = count(1)
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Perform a call. Raises ToolFailure."""
        host_tool = TOOLS[tool]
        part = ToolCallPart(f"call-{next(self.numbers)}", tool, arguments)

        def new_call() -> ToolCall:
            return ToolCall("remit", SessionKey("replay"), tool, "none", str(self.root), part.id)

        context = ToolContext(self.gate, part, new_call, None, None)  # type: ignore[arg-type]
        prepared = host_tool.prepare(context, msgspec.convert(arguments, host_tool.arguments))
        self.gate.perform(prepared.call, prepared.act)

    def put(self, path: str, text: str | None) -> None:
        place = self.root / path
        if text is None:
            place.unlink(missing_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(text.encode())

    def read(self, path: str) -> str | None:
        place = self.root / path
        return decode_content(place.read_bytes()) if place.is_file() else None

    def replay(self, commit: ReplayedCommit, way: str) -> None:
        """Make a commit in one way, and count whether its bytes came out."""
        for file in commit.files:
            self.put(file.path, file.before)
        try:
            if way == "unified diff":
                self.call("apply_patch", {"patch": commit.diff})
                self.counts[f"{way}: calls"] += 1
            else:
                for file in commit.files:
                    for tool, arguments in make_calls(way, file):
                        self.call(tool, arguments)
                        self.counts[f"{way}: calls"] += 1
                        if tool == "write_to_file" and file.before and file.after:
                            self.counts[
                                f"{way}: changed files written as a whole, as its form cannot say the change"
                            ] += 1
        except ToolFailure as failure:
            self.counts[f"{way}: refused"] += 1
            self.problems.append(f"{way} {commit.name} refused {failure.error_type}: {str(failure)[:300]}")
        else:
            wrong = [file.path for file in commit.files if self.read(file.path) != file.after]
            self.counts[f"{way}: {'different' if wrong else 'equal'}"] += 1
            self.problems += [f"{way} {commit.name} different: {path}" for path in wrong]
        for file in commit.files:
            self.put(file.path, None)

    def try_fault(self, fault: str, way: str, file: ChangedText) -> None:
        """Make one hunk of a file with a fault, and count: right, refused with the way out, or neither."""
        made = make_fault(fault, file.before or "", file.after or "")
        if made is None:
            return
        self.put(file.path, made.content)
        name = f"{fault}, {way}"
        try:
            self.call(*make_faulty_call(way, file.path, made))
        except ToolFailure as failure:
            outcome = describe_refusal(failure, made) if self.read(file.path) == made.content else "WRITTEN, refused"
            self.counts[f"{name}: {outcome}"] += 1
            if outcome != "refused with the lines":
                self.problems.append(f"{name} {file.path} {outcome}: {failure.error_type} {str(failure)[:600]}")
        else:
            is_right = self.read(file.path) == made.expected
            self.counts[f"{name}: {'right' if is_right else 'WRONG'}"] += 1
            if not is_right:
                self.problems.append(f"{name} {file.path} wrong: {made.old!r} -> {made.new!r}")
        self.put(file.path, None)


# --- faults -----------------------------------------------------------------------------------------------


class FaultyHunk(Struct, frozen=True):
    """A hunk as a model with a fault quotes it. `there` are the lines that it means, as they stand in the file."""

    content: str
    old: str
    new: str
    expected: str
    there: str


def make_fault(fault: str, before: str, after: str) -> FaultyHunk | None:
    """Return the first hunk of a change with a fault; None where the fault does not apply."""
    hunk = find_unique_hunks(before, after)[0]
    lines = split_with_ends(before)
    rest = lines[hunk.first + len(hunk.old) :]
    old, new = "".join(hunk.old), "".join(hunk.new)
    expected = "".join(lines[: hunk.first]) + new + "".join(rest)
    if not old.strip() or "\r" in before:
        return None
    return FAULTS[fault](FaultyHunk(before, old, new, expected, old), hunk)


def lose_indentation(made: FaultyHunk, hunk: HunkText) -> FaultyHunk | None:
    sides = [line for line in (*hunk.old, *hunk.new) if line.strip()]
    indent = min((line[: len(line) - len(line.lstrip(" \t"))] for line in sides), key=len)
    if not indent or not all(line.startswith(indent) for line in sides):
        return None
    old, new = ("".join(line.removeprefix(indent) for line in side) for side in (hunk.old, hunk.new))
    return msgspec.structs.replace(made, old=old, new=new)


def use_crlf(made: FaultyHunk, hunk: HunkText) -> FaultyHunk | None:
    content, expected, there = (text.replace("\n", "\r\n") for text in (made.content, made.expected, made.there))
    if find_line_end(content) != "\r\n":
        return None
    return msgspec.structs.replace(made, content=content, expected=expected, there=there)


def leave_numbers(made: FaultyHunk, hunk: HunkText) -> FaultyHunk:
    old = "".join(f"{n} | {line}" for n, line in enumerate(hunk.old, hunk.first + 1))
    return msgspec.structs.replace(made, old=old)


def spoil_line(made: FaultyHunk, hunk: HunkText) -> FaultyHunk | None:
    n = max(range(len(hunk.old)), key=lambda n: len(hunk.old[n].strip()))
    if len(hunk.old) < 3 or len(hunk.old[n].strip()) < 4:
        return None
    body = hunk.old[n].rstrip("\n")
    spoilt = body[: len(body) - 2] + "§" + body[-1] + hunk.old[n][len(body) :]
    return msgspec.structs.replace(made, old="".join((*hunk.old[:n], spoilt, *hunk.old[n + 1 :])))


def quote_too_little(made: FaultyHunk, hunk: HunkText) -> FaultyHunk | None:
    bare = find_hunks(made.content, made.expected, 0)
    if len(bare) != 1 or count_occurrences(made.content, "".join(bare[0].old)) < 2 or not "".join(bare[0].old).strip():
        return None
    old, new = "".join(bare[0].old), "".join(bare[0].new)
    return msgspec.structs.replace(made, old=old, new=new, there=old)


def change_meanwhile(made: FaultyHunk, hunk: HunkText) -> FaultyHunk | None:
    """Somebody changed a line of the hunk after it was read."""
    if len(hunk.old) < 3:
        return None
    n = len(hunk.old) // 2
    changed = (*hunk.old[:n], "changed by somebody\n", *hunk.old[n + 1 :])
    content = made.content.replace(made.old, "".join(changed), 1)
    return msgspec.structs.replace(made, content=content, expected="", there="".join(changed))


def change_elsewhere(made: FaultyHunk, hunk: HunkText) -> FaultyHunk:
    """Somebody changed the file in another place after it was read."""
    top = "first line of somebody\n"
    return msgspec.structs.replace(made, content=top + made.content, expected=top + made.expected)


FAULTS: dict[str, Callable[[FaultyHunk, HunkText], FaultyHunk | None]] = {
    "lost indentation": lose_indentation,
    "CRLF": use_crlf,
    "numbers left in": leave_numbers,
    "one wrong line": spoil_line,
    "duplicate context": quote_too_little,
    "stale in the hunk": change_meanwhile,
    "stale elsewhere": change_elsewhere,
}


def make_faulty_call(way: str, path: str, made: FaultyHunk) -> tuple[str, dict[str, Any]]:
    hunk = HunkText(0, tuple(split_with_ends(made.old)), tuple(split_with_ends(made.new)))
    if way == "apply_diff":
        return way, {"path": path, "diff": make_block(hunk, with_line=False)}
    if way == "V4A patch":
        text = make_v4a_hunk(hunk)
        return "apply_patch", {"patch": f"*** Begin Patch\n*** Update File: {path}\n{text}*** End Patch"}
    return way, {"file_path": path, "old_string": made.old, "new_string": made.new}


def describe_refusal(failure: ToolFailure, made: FaultyHunk) -> str:
    """Return what a refusal gives to the next try: the lines as they stand, which lines are alike, or where to look."""
    said = str(failure)
    there = [line.rstrip("\r\n") for line in split_with_ends(made.there)][:50]
    if failure.error_type == "EDIT_AMBIGUOUS" and ("lines " in said or "whole lines" in said):
        return "refused with the lines"
    if failure.error_type == "EDIT_NOT_FOUND" and "\n".join(there) in said:
        return "refused with the lines"
    return "refused, to be read again" if "read the file again" in said else "REFUSED WITHOUT HELP"
