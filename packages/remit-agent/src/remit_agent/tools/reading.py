"""The tool that reads files, and every tool's way to a file: place, bytes, text."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from remit.core.diff.contents import decode_content, sha256, split_with_ends
from remit.core.diff.place import BLANKS, BYTE_ORDER_MARK, indentation_of, line_body
from remit.core.scope.path_patterns import InvalidPath
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit.workspace.place.resolve_paths import resolve_real_paths
from remit.workspace.safe_files import read_regular_file
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure

MAX_FILE_BYTES = 32 * 1024 * 1024
MAX_IMAGE_BYTES = 5 * 1024 * 1024
MAX_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_NAMES = 5
RULES_FILE = "AGENTS.md"
TAB_COLUMNS = 4
IMAGE_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
HEADER_STARTS = ("#", "//", "/*", "*", "@", "--", ";", "///", '"""')
"""Starts of lines that belong to the definition below: comments, decorators, attributes."""

FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]
LineNumber = Annotated[int, Meta(ge=1)]


class IndentationChoice(Struct, frozen=True, forbid_unknown_fields=True):
    """The block around `anchor_line`, `max_levels` outwards (0: all)."""

    anchor_line: LineNumber
    max_levels: Annotated[int, Meta(ge=0)] = 0
    include_siblings: bool = False
    include_header: bool = True
    max_lines: Annotated[int, Meta(ge=1)] = MAX_LINES


class FileToRead(Struct, frozen=True, forbid_unknown_fields=True):
    """A file, whole or in ranges [first, last]."""

    path: FilePath
    line_ranges: list[tuple[LineNumber, LineNumber]] = []


class ReadFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a file as numbered lines, with the content hash of the whole file; images are shown. By default the first
    2000 lines; `offset` and `limit` give a slice, `mode` "indentation" the block around a line, `files` several files
    at once. The numbers and the bar after them are no part of the file. Example:
    {"path": "src/app.py", "offset": 120, "limit": 80}
    """

    path: FilePath | None = None
    mode: Literal["slice", "indentation"] = "slice"
    offset: LineNumber = 1
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES)] = MAX_LINES
    indentation: IndentationChoice | None = None
    files: Annotated[list[FileToRead], Meta(max_length=20)] = []


# --- a file's place and bytes -----------------------------------------------------------------------------


def find_root(context: ToolContext) -> Path:
    found = context.gate.found_workspace
    return found.root if found is not None else Path(context.new_call().cwd)


def locate_path(context: ToolContext, path: str) -> Path:
    """Return the absolute path, links followed. Raises ToolFailure for a path that can be understood in two ways."""
    try:
        real, *others = resolve_real_paths(path, Path(context.new_call().cwd), context.gate.environment.home)
    except InvalidPath as error:
        raise ToolFailure("INVALID_ARGUMENTS", str(error)) from error
    if others:
        raise ToolFailure("INVALID_ARGUMENTS", f"{path!r} leads through a link and back; write the path without `..`")
    return Path(real)


def is_below_root(context: ToolContext, path: str) -> bool:
    return locate_path(context, path).is_relative_to(find_root(context))


def read_content(context: ToolContext, path: str) -> bytes:
    """Return the bytes of a file. Raises ToolFailure."""
    place = locate_path(context, path)
    try:
        return read_regular_file(place, MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise ToolFailure(
            "FILE_NOT_FOUND", f"{path!r} does not exist.{suggest_names(place)}", "choose_another_path"
        ) from None
    except OSError as error:
        if place.is_dir():
            message = f"{path!r} is a folder; list_files shows what it holds"
            raise ToolFailure("FILE_NOT_FOUND", message, "choose_another_path") from error
        kind = "TOO_LARGE" if place.is_file() and place.stat().st_size > MAX_FILE_BYTES else "FILE_NOT_FOUND"
        raise ToolFailure(kind, f"{path!r} cannot be read: {error.strerror}", "choose_another_path") from error


def read_text(context: ToolContext, path: str) -> str:
    """Return the text of a file; bytes outside UTF-8 as lone surrogates. Raises ToolFailure (NOT_TEXT)."""
    content = read_content(context, path)
    if b"\0" in content:
        raise ToolFailure("NOT_TEXT", f"{path!r} is not text ({len(content)} bytes)", "choose_another_path")
    return decode_content(content)


def suggest_names(place: Path) -> str:
    """Return the names in the folder nearest to the missing name."""
    folder = next((above for above in place.parents if above.is_dir()), place.parent)
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return ""
    missing = place.parts[len(folder.parts)]
    near = difflib.get_close_matches(missing, names, MAX_NAMES, 0.5)
    return f" Near it: {', '.join(near)}." if near else ""


def hash_line(content: bytes) -> str:
    return f"[content_hash: sha256:{sha256(content)}]"


# --- read_file --------------------------------------------------------------------------------------------


def prepare_read(context: ToolContext, given: ReadFile) -> PreparedCall:
    if (given.path is None) == (not given.files):
        raise ToolFailure("INVALID_ARGUMENTS", "read_file takes either `path` or `files`")
    if (given.mode == "indentation") != (given.indentation is not None):
        raise ToolFailure("INVALID_ARGUMENTS", "mode 'indentation' goes with `indentation` {anchor_line, …}")
    wanted = given.files or [FileToRead(given.path or "")]

    def act(access: WorkspaceAccess) -> ToolOutput:
        texts: list[str] = []
        data: dict[str, Any] = {"files": [], "images": []}
        for file in wanted:
            try:
                texts.append(show_file(context, file, given, data))
            except ToolFailure as failure:
                if len(wanted) == 1:
                    raise
                texts.append(f"{file.path}\n{failure.error_type}: {failure}")
        return ToolOutput(ok=bool(data["files"]), text="\n\n".join(texts), data=data)

    call = msgspec.structs.replace(context.new_call(), effect="read", paths=tuple(file.path for file in wanted))
    return PreparedCall(call, act)


def show_file(context: ToolContext, file: FileToRead, given: ReadFile, data: dict[str, Any]) -> str:
    """Return a file as text for the model, and add the file to the result's data. Raises ToolFailure."""
    content = read_content(context, file.path)
    media_type = find_image_type(content)
    entry = {"path": file.path, "sha256": sha256(content)}
    if media_type is not None:
        text = show_image(context, file.path, content, media_type, data)
        data["files"].append(entry)
        return text
    if b"\0" in content:
        raise ToolFailure("NOT_TEXT", f"{file.path!r} is not text ({len(content)} bytes)", "choose_another_path")
    lines = [line_body(line) for line in split_with_ends(decode_content(content).removeprefix(BYTE_ORDER_MARK))]
    if given.indentation is not None:
        ranges = [find_block(lines, given.indentation)]
    else:
        ranges = file.line_ranges or [(given.offset, given.offset + given.limit - 1)]
    data["files"].append(entry)
    shown = [file.path, *(show_lines(lines, *pair) for pair in ranges), hash_line(content)]
    nearer = find_nearer_rules(find_root(context), locate_path(context, file.path))
    return "\n".join([*shown, *([f"[rules for this folder: {', '.join(nearer)}]"] if nearer else [])])


def find_nearer_rules(root: Path, place: Path) -> list[str]:
    if not place.is_relative_to(root):
        return []
    folders = [folder for folder in place.parents if folder != root and folder.is_relative_to(root)]
    found = [folder / RULES_FILE for folder in folders[::-1] if (folder / RULES_FILE).is_file()]
    return [path.relative_to(root).as_posix() for path in found if path != place]


def find_image_type(content: bytes) -> str | None:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in IMAGE_TYPES.items() if content.startswith(start)), None)


def show_image(context: ToolContext, path: str, content: bytes, media_type: str, data: dict[str, Any]) -> str:
    if len(content) > MAX_IMAGE_BYTES:
        limit = MAX_IMAGE_BYTES >> 20
        raise ToolFailure("TOO_LARGE", f"the image {path!r} has {len(content)} bytes; the limit is {limit} MiB")
    if not context.has_vision:
        return f"{path}\nAn image ({media_type}, {len(content)} bytes), which this model cannot see."
    kept = context.folder.keep_image(content, media_type, Path(path).name)
    data["images"].append(msgspec.to_builtins(kept))
    return f"{path}\nAn image ({media_type}, {len(content)} bytes).\n{hash_line(content)}"


def show_lines(lines: Sequence[str], first: int, last: int) -> str:
    if not lines:
        return "The file is empty."
    last = min(last, first + MAX_LINES - 1, len(lines))
    if first > last:
        return f"There are no lines {first}-{max(first, last)}: the file has {len(lines)} lines."
    width = len(str(last))
    rows = [f"{n:>{width}} | {shorten_line(lines[n - 1])}" for n in range(first, last + 1)]
    return "\n".join([f"Showing lines {first}-{last} of {len(lines)}", *rows])


def shorten_line(line: str) -> str:
    shown = line.encode("utf-8", "replace").decode()
    return shown if len(shown) <= MAX_LINE_CHARS else f"{shown[:MAX_LINE_CHARS]}… [{len(shown)} characters]"


def find_block(lines: Sequence[str], choice: IndentationChoice) -> tuple[int, int]:
    """Return first and last line of the block around a line, from 1. Raises ToolFailure."""
    if choice.anchor_line > len(lines):
        message = f"there is no line {choice.anchor_line}: the file has {len(lines)} lines"
        raise ToolFailure("INVALID_ARGUMENTS", message)
    depths = [measure_indent(line) for line in lines]
    first = choice.anchor_line - 1
    while first > 0 and depths[first] is None:
        first -= 1
    level = depths[first] or 0
    # 1. Outwards, from header to header.
    for _ in range(choice.max_levels or len(lines)):
        above = next((n for n in range(first - 1, -1, -1) if is_shallower(depths[n], level)), None)
        if above is None:
            break
        first, level = above, depths[above] or 0
    # 2. Down to the end of the block; siblings are blocks of the same level.
    own_end = first + 1
    while own_end < len(lines) and (depths[own_end] is None or (depths[own_end] or 0) > level):
        own_end += 1
    if own_end < len(lines) and depths[own_end] == level and lines[own_end].strip()[:1] in ("}", ")", "]"):
        own_end += 1
    end = own_end
    if choice.include_siblings:
        while end < len(lines) and not is_shallower(depths[end], level):
            end += 1
        while first > 0 and not is_shallower(depths[first - 1], level):
            first -= 1
    # 3. The lines above that belong to it.
    if choice.include_header:
        while first > 0 and lines[first - 1].strip().startswith(HEADER_STARTS) and depths[first - 1] == level:
            first -= 1
    while end > first + 1 and depths[end - 1] is None:
        end -= 1
    if end - first > choice.max_lines:
        first = max(first, min(choice.anchor_line - 1 - choice.max_lines // 2, end - choice.max_lines))
        end = first + choice.max_lines
    return first + 1, end


def measure_indent(line: str) -> int | None:
    """Return the columns before the first character; None for an empty line."""
    return len(indentation_of(line).expandtabs(TAB_COLUMNS)) if line.strip(BLANKS) else None


def is_shallower(depth: int | None, level: int) -> bool:
    return depth is not None and depth < level


READ_FILE = HostTool("read_file", ReadFile, "read", prepare_read, is_read=True)
