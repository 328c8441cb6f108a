"""Code: a folder, or a file with the origin of each line, and why chosen lines are there."""

from collections import Counter

from msgspec import Struct, convert

from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.origins.blame_porcelain import unquote_path
from remit.provenance.why.explanation import Explanation
from remit.servers.web.guard import Refused
from remit.servers.web.pages.intents import list_tracked_files
from remit.servers.web.pages.page import PageRequest

CODE_QUERY = ("l", "from")
LINES_SHOWN = 400
MAX_ENTRIES = 2000


class FolderEntry(Struct, frozen=True):
    """A file or folder; `files` counts what a folder holds."""

    name: str
    path: str
    files: int
    is_folder: bool


class CodeLine(Struct, frozen=True):
    """A line with its origin. `starts_block`: the line before has a different origin."""

    blamed: BlamedLine
    starts_block: bool


class Code(Struct, frozen=True):
    """A folder (`entries`) or a window of a file (`lines`), with the share of each origin in percent."""

    path: str
    is_folder: bool
    entries: list[FolderEntry] = []
    lines: list[CodeLine] = []
    total: int = 0
    start: int = 0
    shares: dict[str, int] = {}
    chosen: tuple[int, int] | None = None
    why: Explanation | None = None


def read_code(request: PageRequest) -> Code:
    path = request.path.get("path", "").strip("/")
    tracked = list_tracked_files(request.one_repository.root)
    if path in tracked:
        return read_file(request, path)
    entries = list_entries(tracked, path)
    if not entries and path:
        raise Refused(404, f"there is no file {path[:200]!r}", "see the page Code")
    return Code(path, True, entries)


def list_entries(tracked: list[str], folder: str) -> list[FolderEntry]:
    prefix = f"{folder}/" if folder else ""
    counts: dict[tuple[bool, str], int] = {}
    for path in tracked:
        if path.startswith(prefix):
            is_quoted = path.startswith('"')  # a name that is no text: it is listed whole, at the root
            name, slash, _ = (path, "", "") if is_quoted else path.removeprefix(prefix).partition("/")
            key = (not slash, name)
            counts[key] = counts.get(key, 0) + 1
    found = [
        FolderEntry(name, f"{prefix}{name}", count, not is_file) for (is_file, name), count in sorted(counts.items())
    ]
    return found[:MAX_ENTRIES]


def read_file(request: PageRequest, path: str) -> Code:
    name = unquote_path(path.encode())
    answer = request.repositories.run_command(request.one_repository, "blame", name)
    lines = convert(answer["lines"], list[BlamedLine])
    chosen = parse_range(request.query.get("l", ""), len(lines))
    start = request.number("from", max(0, chosen[0] - 20) if chosen else 0, 10_000_000)
    why = None
    if chosen:
        asked = f"{name}:{chosen[0]}-{chosen[1]}"
        answer = request.repositories.run_command(request.one_repository, "why", asked)
        why = convert(answer, Explanation)
    window = lines[start : start + LINES_SHOWN]
    shown = [CodeLine(line, starts_block(line, before)) for line, before in zip(window, [None, *window], strict=False)]
    return Code(path, False, [], shown, len(lines), start, count_shares(lines), chosen, why)


def starts_block(line: BlamedLine, before: BlamedLine | None) -> bool:
    if before is None:
        return True
    return (line.origin, line.session_id, line.intent_id) != (before.origin, before.session_id, before.intent_id)


def count_shares(lines: list[BlamedLine]) -> dict[str, int]:
    counts = Counter(line.origin for line in lines)
    return {origin: round(100 * count / len(lines)) for origin, count in counts.most_common()}


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
