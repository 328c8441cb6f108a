"""The tools that list files, search their text, and find code by words. Files ignored by git are left out."""

import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from remit.core.untrusted_input import as_object, sanitise_full_line
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit.workspace.git.command import Git, GitError
from remit.workspace.processes.limited_command import run_trusted_command
from remit_agent.tools.reading import FilePath, find_root, locate_path, suggest_names
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure

MAX_LISTED = 200
MAX_HITS = 300
MAX_HIT_CHARS = 500
MAX_SEARCH_BYTES = 8 * 1024 * 1024
SEARCH_TIMEOUT_S = 30.0
MAX_INDEXED_FILES = 5000
MAX_INDEXED_BYTES = 256 * 1024
CHUNK_LINES, CHUNK_STEP = 40, 30
MAX_CHUNKS = 8
MAX_SHOWN_LINES = 12
WORD = re.compile(r"[^\W_]+")
WORD_PARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")

SEARCH_PROGRAM = """\
import json, os, re, sys
from fnmatch import fnmatchcase
pattern, glob, *paths = json.load(sys.stdin)
try:
    found = re.compile(pattern)
except re.error as error:
    print(f"regex parse error: {error}")
    sys.exit(2)
for path in paths:
    if glob and not any(fnmatchcase(name, glob) for name in (path, path.rpartition("/")[2])):
        continue
    if os.path.islink(path):
        continue
    try:
        content = open(path, "rb").read(1 << 22)
    except OSError:
        continue
    if b"\\0" in content:
        continue
    lines = content.decode("utf-8", "replace").split("\\n")
    hits = [n for n, line in enumerate(lines) if found.search(line)]
    for n in sorted({near for n in hits for near in (n - 1, n, n + 1) if 0 <= near < len(lines)}):
        kind = "match" if n in hits else "context"
        data = {"path": {"text": path}, "line_number": n + 1, "lines": {"text": lines[n]}}
        print(json.dumps({"type": kind, "data": data}))
"""
"""Python's own search, with the output of `rg --json`; a process of its own, as an expression may never end."""


class ListFiles(Struct, frozen=True, forbid_unknown_fields=True):
    """List the files and folders (with `/`) in a folder, with `recursive` all files below it; what git ignores is left
    out. Example: {"path": "src", "recursive": true}
    """

    path: FilePath = "."
    recursive: bool = False


class SearchFiles(Struct, frozen=True, forbid_unknown_fields=True):
    """Search the lines of files by a regular expression (Rust's syntax), with one line around each hit; `file_pattern`
    is a glob of file names. Example: {"path": "src", "regex": "def load_\\\\w+", "file_pattern": "*.py"}
    """

    path: FilePath
    regex: Annotated[str, Meta(min_length=1, max_length=2000)]
    file_pattern: str | None = None


class SearchCode(Struct, frozen=True, forbid_unknown_fields=True):
    """Find the parts of the code that speak of some words, best first; use it where you do not know the names yet.
    Example: {"query": "retry after a rate limit", "path": "src"}
    """

    query: Annotated[str, Meta(min_length=1, max_length=1000)]
    path: FilePath = "."


def prepare_text(context: ToolContext, path: str, answer: Callable[[Path], str]) -> PreparedCall:
    def act(access: WorkspaceAccess) -> ToolOutput:
        place = locate_path(context, path)
        if not os.path.lexists(place):
            raise ToolFailure(
                "FILE_NOT_FOUND", f"{path!r} does not exist.{suggest_names(place)}", "choose_another_path"
            )
        return ToolOutput(True, answer(place))

    return PreparedCall(replace(context.new_call(), effect="read", paths=(path,)), act)


# --- listing ----------------------------------------------------------------------------------------------


def list_below(place: Path) -> list[str]:
    try:
        out = Git(place).run("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".")
        names = {os.fsdecode(name) for name in out.split(b"\0") if name}
        return sorted(name for name in names if os.path.lexists(place / name))
    except GitError:
        return sorted(walk_files(place))


def walk_files(place: Path) -> Iterator[str]:
    for folder, below, names in os.walk(place):
        below[:] = sorted(name for name in below if name != ".git")
        yield from (Path(folder, name).relative_to(place).as_posix() for name in names)


def prepare_list(context: ToolContext, given: ListFiles) -> PreparedCall:
    def answer(place: Path) -> str:
        if not place.is_dir():
            raise ToolFailure("FILE_NOT_FOUND", f"{given.path!r} is a file; read_file shows it", "choose_another_path")
        names = list_below(place)
        if not given.recursive:
            names = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in names})
        shown = [sanitise_full_line(name) for name in names[:MAX_LISTED]]
        more = [f"… and {len(names) - MAX_LISTED} more; name a folder below"] if len(names) > MAX_LISTED else []
        return "\n".join([*shown, *more]) or "The folder holds no files (or git ignores them)."

    return prepare_text(context, given.path, answer)


# --- searching --------------------------------------------------------------------------------------------


def find_ripgrep(search_path: str) -> str | None:
    places = (Path(folder) / "rg" for folder in search_path.split(os.pathsep) if folder)
    found = next((place for place in places if os.access(place, os.X_OK)), Path(sys.executable).with_name("rg"))
    return str(found) if found.is_file() else None


def prepare_search(context: ToolContext, given: SearchFiles) -> PreparedCall:
    variables = dict(context.gate.environment.variables)
    program = find_ripgrep(variables.get("PATH", os.defpath))
    return prepare_text(context, given.path, lambda place: search_text(program, place, given, variables))


def search_text(program: str | None, place: Path, given: SearchFiles, variables: dict[str, str]) -> str:
    """Return the hits below a place, by ripgrep or without it by Python. Raises ToolFailure for a wrong expression."""
    folder, target, stdin = (place, ".", b"") if place.is_dir() else (place.parent, place.name, b"")
    if program is not None:
        words = [program, "--no-config", "--json", "--hidden", "--sort", "path", "-C", "1", "-g", "!.git"]
        words += ["-g", given.file_pattern] if given.file_pattern else []
        words += ["-e", given.regex, "--", target]
    else:
        words = [sys.executable, "-I", "-c", SEARCH_PROGRAM]
        names = list_below(place) if place.is_dir() else [target]
        stdin = msgspec.json.encode([given.regex, given.file_pattern or "", *names])
    done = run_trusted_command(
        words,
        folder=folder,
        variables=variables,
        timeout_s=SEARCH_TIMEOUT_S,
        stdin=stdin,
        head_bytes=MAX_SEARCH_BYTES,
        with_stderr=True,
    )
    text, hits = show_hits(done.output)
    if done.exit_code == 2 and not hits:
        raise ToolFailure("INVALID_ARGUMENTS", f"the search failed: {text}")
    notes = [text or "No line matches."]
    notes += [f"The search is not whole: {done.failure}."] if done.failure else []
    notes += ["Searched with Python's re, as ripgrep is not there."] if program is None else []
    return "\n".join(notes)


def show_hits(output: bytes) -> tuple[str, int]:
    rows: list[str] = []
    path, last, hits = "", 0, 0
    for raw in output.split(b"\n"):
        if not raw:
            continue
        try:
            event = as_object(msgspec.json.decode(raw))
        except msgspec.DecodeError:
            rows.append(raw.decode("utf-8", "replace"))
            continue
        data = as_object(event.get("data"))
        if event.get("type") not in ("match", "context"):
            continue
        name = as_object(data.get("path")).get("text") or "?"
        number = int(data.get("line_number") or 0)
        if name != path:
            rows += (
                ["", sanitise_full_line(name.removeprefix("./"))]
                if rows
                else [sanitise_full_line(name.removeprefix("./"))]
            )
        elif number > last + 1:
            rows.append("  --")
        path, last, is_hit = name, number, event["type"] == "match"
        hits += is_hit
        line = str(as_object(data.get("lines")).get("text") or "").rstrip("\r\n")
        shown = line if len(line) <= MAX_HIT_CHARS else f"{line[:MAX_HIT_CHARS]}…"
        rows.append(f"{'>' if is_hit else ' '} {number} | {shown}")
        if hits >= MAX_HITS:
            rows.append(f"… {MAX_HITS} hits are shown; search for less, or in fewer files")
            break
    return "\n".join(rows), hits


# --- finding by words -------------------------------------------------------------------------------------


def prepare_codebase_search(context: ToolContext, given: SearchCode) -> PreparedCall:
    def answer(place: Path) -> str:
        words = list(dict.fromkeys(word.lower() for word in WORD.findall(WORD_PARTS.sub(" ", given.query))))
        if not words:
            raise ToolFailure("INVALID_ARGUMENTS", "the query holds no word")
        folder = place if place.is_dir() else place.parent
        names = list_below(place) if place.is_dir() else [place.name]
        prefix = "" if folder == find_root(context) else f"{given.path.rstrip('/')}/"
        chunks = rank_chunks(folder, names[:MAX_INDEXED_FILES], words)
        rows = [
            f"{sanitise_full_line(prefix + name)}:{first}-{last} (score {score:.1f})\n{text}"
            for name, first, last, score, text in chunks
        ]
        left_out = (
            [f"Only the first {MAX_INDEXED_FILES} of {len(names)} files were searched."]
            if len(names) > MAX_INDEXED_FILES
            else []
        )
        return "\n\n".join(
            ["Found by words, not by meaning:", *rows, *left_out] if rows else ["Nothing speaks of these words."]
        )

    return prepare_text(context, given.path, answer)


def rank_chunks(folder: Path, names: Sequence[str], words: Sequence[str]) -> list[tuple[str, int, int, float, str]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE chunk USING fts5(path, body, first UNINDEXED, tokenize='porter unicode61')"
        )
        for name in names:
            lines = read_lines(folder / name)
            for first in range(0, max(1, len(lines) - (CHUNK_LINES - CHUNK_STEP)), CHUNK_STEP):
                body = WORD_PARTS.sub(" ", "\n".join(lines[first : first + CHUNK_LINES]))
                row = (WORD_PARTS.sub(" ", name), f"{body}\0{name}", first)
                if lines:
                    database.execute("INSERT INTO chunk VALUES (?, ?, ?)", row)
        query = " OR ".join(f'"{word}"' for word in words)
        ranked = database.execute(
            "SELECT body, first, bm25(chunk, 4.0, 1.0) FROM chunk WHERE chunk MATCH ? ORDER BY 3 LIMIT ?",
            (query, 10 * MAX_CHUNKS),
        ).fetchall()
    found: dict[str, tuple[str, int, int, float, str]] = {}
    for body, first, rank in ranked:
        name = body.rpartition("\0")[2]
        if name not in found and len(found) < MAX_CHUNKS:
            lines = read_lines(folder / name)
            start = best_line(lines[first : first + CHUNK_LINES], words) + first
            last = min(start + MAX_SHOWN_LINES, len(lines))
            text = "\n".join(f"{n} | {lines[n - 1][:MAX_HIT_CHARS]}" for n in range(start + 1, last + 1))
            found[name] = name, start + 1, last, -rank, text
    return list(found.values())


def best_line(lines: Sequence[str], words: Sequence[str]) -> int:
    spoken = [{word for word in words if word in WORD_PARTS.sub(" ", line).lower()} for line in lines]
    windows = range(max(1, len(lines) - MAX_SHOWN_LINES + 1))
    return max(windows, key=lambda n: (len({w for line in spoken[n : n + MAX_SHOWN_LINES] for w in line}), -n))


def read_lines(path: Path) -> list[str]:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_INDEXED_BYTES:
            return []
        content = path.read_bytes()
    except OSError:
        return []
    return [] if b"\0" in content else content.decode("utf-8", "replace").split("\n")


FINDING_TOOLS = (
    HostTool("list_files", ListFiles, "read", prepare_list, is_read=True),
    HostTool("search_files", SearchFiles, "read", prepare_search, is_read=True),
    HostTool("codebase_search", SearchCode, "read", prepare_codebase_search, is_read=True),
)
