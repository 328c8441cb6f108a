"""Code: the files, or a window of a file with the origin of each line, and why chosen lines are there.

The text is shown at once. Who wrote it is the answer of `remit blame`, which comes when it is there.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotThereYet
from functools import partial
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert

from remit.console.guard import Refused
from remit.console.highlight import MAX_BYTES, MAX_LINE_BYTES, Span, find_spans
from remit.console.pages.page import PageRequest
from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import unquote_path
from remit.gate.people.reviews import list_reviewed_records
from remit.gate.undo.restore import read_current
from remit.ledger.log_files import list_readable_places
from remit.ledger.reader import measure_log_bytes
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.why.explanation import Explanation
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import head_commit
from remit.workspace.place.workspace import locate_workspace

CODE_QUERY = ("l", "from", "rev", "who", "wait", "q")
LINES_SHOWN = 200
HEAD_LINES = 1200  # of a longer file: as many are parsed for a window at its beginning
MAX_ENTRIES = 1000
MAX_FOUND = 200
SOON_S = 0.08  # an answer that comes within this time is waited for
LINE_END = re.compile(rb"[^\n]*\n|[^\n]+")
MAX_SHOWN_BYTES = 4000  # of one line
ORIGIN_FILTERS = ("ai", "human", "mixed", "unknown", "unreviewed")


class FolderEntry(Struct, frozen=True):
    """A file or folder; `files` counts what a folder holds. `address` names it in a page's address."""

    name: str
    address: str
    files: int
    is_folder: bool


class OriginBlock(Struct, frozen=True):
    """Neighbouring lines with one origin. `reviewed`: a person marked the change that wrote them as reviewed."""

    start: int
    end: int
    origin: Literal["ai", "human", "mixed", "unknown"]
    agent: str | None
    model: str | None
    session_id: str | None
    intent_id: str | None
    grade: str | None
    record: str | None
    commit: str
    reviewed: bool = False


class CodeLine(Struct, frozen=True):
    """A line. `block` is None while nobody knows; `starts_block`: the line before has a different origin."""

    number: int
    text: str
    spans: list[tuple[int, int, str]]
    block: OriginBlock | None
    starts_block: bool
    is_cut: bool = False


class Code(Struct, frozen=True):
    """A folder (`entries`), files with some words (`found`), or a window of a file (`lines`), with the share of each
    origin in percent. Without `has_origins`, the origins are still to come.
    """

    path: str
    is_folder: bool
    entries: list[FolderEntry] = []
    words: str = ""
    up: str = ""
    rev: str = ""
    who: str = ""
    lines: list[CodeLine] = []
    total: int = 0
    start: int = 0
    has_origins: bool = True
    blocks: list[OriginBlock] = []
    shares: dict[str, int] = {}
    note: str = ""
    chosen: tuple[int, int] | None = None
    why: Explanation | None = None


class FileText(Struct, frozen=True):
    """The bytes of a file; `stamp` changes with them."""

    content: bytes
    stamp: str


def read_code(request: PageRequest) -> Code:
    address = request.path.get("path", "").strip("/")
    tracked = request.repositories.list_files(request.one_repository)
    path = find_path(address, tracked)
    if path is None and address:
        tracked = request.repositories.list_files(request.one_repository, max_age_s=0)
        path = find_path(address, tracked)
    if path is not None:
        return read_file(request, path)
    words = request.query.get("find", "")
    entries = find_files(tracked, words) if words and not address else list_entries(tracked, address)
    if not entries and address:
        raise Refused(404, f"there is no file {address[:200]!r}", "see the page Code")
    return Code(address, True, entries, words[:200], up=address.rpartition("/")[0])


# -- names of files --------------------------------------------------------------------------------------------


def name_in_address(path: str) -> str:
    """Return a path as an address can hold it: with control characters and bytes outside UTF-8 quoted as git does."""
    raw = path.encode("utf-8", "surrogateescape")
    if path.isprintable() and not path.startswith('"'):
        return path
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in raw) + '"'


def find_path(address: str, tracked: list[str]) -> str | None:
    if address in tracked:
        return address
    quoted = unquote_path(address.encode("utf-8", "replace")) if address.startswith('"') else None
    return quoted if quoted in tracked else None


def list_entries(tracked: list[str], folder: str) -> list[FolderEntry]:
    prefix = f"{folder}/" if folder else ""
    counts: Counter[tuple[bool, str]] = Counter()
    for path in tracked:
        if path.startswith(prefix):
            name, slash, _ = path.removeprefix(prefix).partition("/")
            counts[not slash, name] += 1
    found = [
        FolderEntry(show_name(name), name_in_address(f"{prefix}{name}"), count, not is_file)
        for (is_file, name), count in sorted(counts.items())
    ]
    return found[:MAX_ENTRIES]


def find_files(tracked: list[str], words: str) -> list[FolderEntry]:
    """Return the files whose path has all words, the shortest first."""
    parts = words.casefold().split()
    found = sorted((p for p in tracked if all(part in p.casefold() for part in parts)), key=lambda p: (len(p), p))
    return [FolderEntry(show_name(path), name_in_address(path), 1, is_folder=False) for path in found[:MAX_FOUND]]


def show_name(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# -- one file --------------------------------------------------------------------------------------------------


def read_file(request: PageRequest, path: str) -> Code:
    rev, who = request.query.get("rev", ""), request.query.get("who", "")
    if who and who not in ORIGIN_FILTERS:
        raise Refused(400, f"who is {who[:40]!r}; there are {', '.join(ORIGIN_FILTERS)}", "take it out of the address")
    text = read_text(request, path, rev)
    if b"\0" in text.content[:8000]:
        return Code(show_name(path), False, rev=rev, note="This file is binary.")
    lines: list[bytes] = LINE_END.findall(text.content)
    chosen = parse_range(request.query.get("l", ""), len(lines))
    asked = chosen is not None or request.wants_all or request.query.get("wait") == "1"
    why = ask_why(request, path, chosen) if chosen and not rev and request.part in ("", "why") else None
    coming = ask_origins(request, path, rev, text) if request.part != "why" else None
    soon = time.monotonic() + (SOON_S if len(lines) <= HEAD_LINES else 0.0)  # of a long file they come later
    start = request.number("from", max(0, chosen[0] - 20) if chosen else 0, 10_000_000)
    start = min(start, max(0, len(lines) - 1))
    window = lines[start : start + LINES_SHOWN]
    spans = highlight_window(request, path, text, lines, start)
    blocks = None
    if coming is not None:
        try:
            blocks = coming.result(None if asked else max(0.0, soon - time.monotonic()))
        except NotThereYet:
            blocks = None
    if blocks:
        with request.repositories.open_gate(request.one_repository) as gate:
            blocks = mark_reviewed_blocks(blocks, set(list_reviewed_records(gate.state)))
    return Code(
        show_name(path),
        False,
        [],
        "",
        path.rpartition("/")[0],
        rev,
        who,
        list(make_lines(window, start, spans, blocks)),
        len(lines),
        start,
        blocks is not None,
        blocks or [],
        count_shares(blocks or []),
        name_limits(text.content, lines),
        chosen,
        why.result() if why else None,
    )


def read_text(request: PageRequest, path: str, rev: str) -> FileText:
    """Return the file of the work tree, or of a commit. Raises Refused."""
    root = Path(request.one_repository.root)
    if rev:
        try:
            git = Git(root)
            commit = git.text("rev-parse", "--verify", "--end-of-options", f"{rev[:200]}^{{commit}}")
            return FileText(git.run("cat-file", "blob", f"{commit}:./{path}"), commit)
        except GitError as error:
            raise Refused(404, error.message.strip().partition("\n")[0] or str(error), "name a commit") from None
    try:
        status = (root / path).lstat()
        content = read_current(root / path)
    except (OSError, ValueError) as error:
        raise Refused(404, f"{show_name(path)[:200]!r} cannot be read: {error}", "see the page Code") from None
    if content is None:
        raise Refused(404, f"there is no file {show_name(path)[:200]!r}", "see the page Code")
    return FileText(content, f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}")


def name_limits(content: bytes, lines: list[bytes]) -> str:
    if len(content) > MAX_BYTES:
        return f"The file has {len(content) >> 20} MB: its text is shown plain."
    if max(map(len, lines), default=0) > MAX_LINE_BYTES:
        return "A line is very long: the text is shown plain, and long lines are cut."
    return ""


def highlight_window(
    request: PageRequest, path: str, text: FileText, lines: list[bytes], start: int
) -> dict[int, list[Span]]:
    window = lines[start : start + LINES_SHOWN]
    if not window or max(map(len, window)) > MAX_LINE_BYTES:
        return {}
    end = start + 2 * LINES_SHOWN
    content = text.content
    if end <= HEAD_LINES < len(lines) and len(content) <= MAX_BYTES:
        content = b"".join(lines[:HEAD_LINES])
    root = request.repositories.highlighter.find_tree((path, text.stamp, len(content)), path, content)
    return find_spans(root, start, start + len(window) - 1) if root is not None else {}


def make_lines(
    window: list[bytes], start: int, spans: dict[int, list[Span]], blocks: list[OriginBlock] | None
) -> Iterable[CodeLine]:
    last = start + len(window)
    near = [block for block in blocks or () if block.start <= last and block.end > start]
    by_line = {n: block for block in near for n in range(max(block.start, start), min(block.end, last) + 1)}
    for number, line in enumerate(window, start + 1):
        block = by_line.get(number)
        stripped = line.removesuffix(b"\n").removesuffix(b"\r")
        is_cut = len(stripped) > MAX_SHOWN_BYTES
        shown = stripped[:MAX_SHOWN_BYTES]
        starts_block = block is not None and (block.start == number or number == start + 1)
        yield CodeLine(number, shown.decode("utf-8", "replace"), spans.get(number - 1, []), block, starts_block, is_cut)


# -- origins and reasons ---------------------------------------------------------------------------------------


def ask_origins(request: PageRequest, path: str, rev: str, text: FileText) -> Future[list[OriginBlock]]:
    repository = request.one_repository
    words = ("blame", *([rev] if rev else []), "--", path)
    state = read_repository_stamp(repository.root)
    return request.repositories.heavy.ask(
        (repository.root, words, text.stamp, state), partial(read_origins, request, words)
    )


def read_origins(request: PageRequest, words: tuple[str, ...]) -> list[OriginBlock]:
    answer = request.repositories.run_command(request.one_repository, *words)
    return list(join_blocks(convert(answer["lines"], prepare_type(list[BlamedLine]))))


def read_repository_stamp(root: str) -> str:
    workspace = locate_workspace(Path(root))
    if workspace is None:
        return ""
    folders = [workspace.log_folder / place for place in list_readable_places(workspace.log_folder)]
    return f"{head_commit(workspace)} {sum(map(measure_log_bytes, folders))}"


def join_blocks(lines: Iterable[BlamedLine]) -> Iterable[OriginBlock]:
    block: OriginBlock | None = None
    for line in lines:
        fields = (line.origin, line.agent, line.model, line.session_id, line.intent_id, line.grade, line.record)
        if block is not None and fields == author_of(block):
            block = OriginBlock(block.start, line.line, *fields, commit=block.commit)
            continue
        if block is not None:
            yield block
        block = OriginBlock(line.line, line.line, *fields, commit=line.commit)
    if block is not None:
        yield block


def author_of(block: OriginBlock) -> tuple[Any, ...]:
    return (block.origin, block.agent, block.model, block.session_id, block.intent_id, block.grade, block.record)


def mark_reviewed_blocks(blocks: list[OriginBlock], reviewed: set[str]) -> list[OriginBlock]:
    if not reviewed:
        return blocks
    return [
        OriginBlock(block.start, block.end, *author_of(block), commit=block.commit, reviewed=block.record in reviewed)
        for block in blocks
    ]


def count_shares(blocks: list[OriginBlock]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for block in blocks:
        counts[block.origin] += block.end - block.start + 1
    return {origin: round(100 * count / counts.total()) for origin, count in counts.most_common()}


def ask_why(request: PageRequest, path: str, chosen: tuple[int, int]) -> Future[Explanation]:
    repository = request.one_repository
    words = ("why", f"{path}:{chosen[0]}-{chosen[1]}")
    return request.repositories.heavy.ask(
        (repository.root, words, read_repository_stamp(repository.root)),
        lambda: convert(request.repositories.run_command(repository, *words), prepare_type(Explanation)),
        max_age_s=30.0,
    )


def parse_range(text: str, most: int) -> tuple[int, int] | None:
    """Return the chosen lines of `12` or `12-18`; None for an empty value. Raises Refused for an invalid value."""
    if not text:
        return None
    first, _, last = text.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        raise Refused(400, f"lines are {text[:40]!r}; expected 12 or 12-18", "take `l` out of the address")
    begin, end = int(first), int(last or first)
    if not 1 <= begin <= end <= most:
        raise Refused(404, f"the file has {most} lines, not {begin}-{end}", "choose lines of the file")
    return begin, end
