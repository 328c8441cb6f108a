"""Reading an agent's payload: what the dialects share. Every function takes what is there and believes none of it."""

import posixpath
import re
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.adapters.edits import edit_of
from remit.adapters.row import AdapterError, AgentRow, ToolRow
from remit.adapters.standard_input import opens_stdin
from remit.core.call import REMIT_TOOLS, SessionKey, ToolCall, hash_arguments
from remit.core.contents import LineRange
from remit.core.edits import Edit, Patching
from remit.core.events import SessionStarted, Source
from remit.core.patch import Patch, PatchError, heredoc_patches, parse_patch

Object: TypeAlias = dict[str, object]

UNLISTED = ToolRow("execute", whole_workspace=True)
SOURCES: tuple[Source, ...] = ("startup", "resume", "clear", "compact")
SUMMARY_CHARS = 300
MOST_LINES = 2**31

CHANGED, PROPOSED = "modified_by_user", "ai_proposed_content"
"""What Gemini CLI and Qwen Code put among a file tool's arguments when a person changed them. Source: their
`createUpdatedParams`, read 2026-11."""

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
EXIT_AT_START = re.compile(r"Exit code:? (\d{1,3})\b")
EXIT_LINE = re.compile(r"^Exit Code: (\d{1,3})$", re.MULTILINE)


class Operands(Struct, frozen=True):
    """What a call works on. `malformed` says why that cannot be told."""

    paths: tuple[str, ...] = ()
    command: str | None = None
    malformed: str | None = None
    checks_itself: bool = False
    edit: Edit | None = None


def decoded(row: AgentRow, payload: bytes) -> Object:
    """The payload as an object."""
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AdapterError(row.agent, f"it is not JSON ({str(error)[:200]})") from error
    if not isinstance(document, dict):
        raise AdapterError(row.agent, f"it is a JSON {type(document).__name__}, not an object")
    return mapping(cast("object", document))


def mapping(value: object) -> Object:
    """`value` where it is a JSON object; an empty one otherwise."""
    return cast("Object", value) if isinstance(value, dict) else {}


def sequence(value: object) -> list[object]:
    """`value` where it is a JSON array; an empty one otherwise."""
    return cast("list[object]", value) if isinstance(value, list) else []


def text(row: AgentRow, document: Object, key: str) -> str:
    """A string that has to be there."""
    value = document.get(key)
    if not isinstance(value, str) or not value:
        raise AdapterError(row.agent, f"{key} is missing or no text")
    return value


def folder(row: AgentRow, document: Object, key: str) -> str:
    """A string that names a folder: it has to be there, and holds no NUL."""
    value = text(row, document, key)
    if "\0" in value:
        raise AdapterError(row.agent, f"{key} holds a NUL, and names no folder")
    return value


def optional(document: Object, key: str) -> str | None:
    """A string that may be there; anything else counts as absent."""
    value = document.get(key)
    return value if isinstance(value, str) else None


def tool_call(
    row: AgentRow, document: Object, session: SessionKey, cwd: str, remit_tool: str | None, transcript: str | None
) -> ToolCall:
    """The call, by the tool's row; a tool that no row knows counts as one that executes."""
    tool = text(row, document, "tool_name")
    tool_row = row_of(row, tool, remit_tool)
    call = ToolCall(
        agent=row.agent,
        session=session,
        tool=tool,
        effect=tool_row.effect,
        cwd=cwd,
        call_id=optional(document, "tool_use_id") or "",
        remit_tool=remit_tool,
        whole_workspace=tool_row.whole_workspace,
        transcript=transcript,
        permission_mode=optional(document, "permission_mode") or "",
    )
    return with_arguments(row, call, mapping(document.get("tool_input")))


def row_of(row: AgentRow, tool: str, remit_tool: str | None) -> ToolRow:
    """The tool's row."""
    return ToolRow("meta") if remit_tool else row.tools.get(tool, UNLISTED)


def with_arguments(row: AgentRow, call: ToolCall, given: Object) -> ToolCall:
    """The call with these arguments, and all that is read from them."""
    found = operands(row_of(row, call.tool, call.remit_tool), given)
    return replace(
        call,
        paths=found.paths,
        command=found.command,
        arguments_sha256=hash_arguments(given),
        malformed=found.malformed,
        checks_itself=found.checks_itself,
        opens_stdin=row.unwatched_stdin and found.command is not None and opens_stdin(found.command),
        arguments=given,
        edit=found.edit,
        proposal=proposal_in(given),
    )


def proposal_in(given: Object) -> str | None:
    """What the agent had proposed, where the arguments say that a person changed it in their editor; None elsewhere.

    Of a search/replace edit some versions put the file's old content there: it holds no new line of anybody's.
    """
    return (optional(given, PROPOSED) or "") if given.get(CHANGED) is True else None


def named_tool(row: AgentRow, tool: str) -> str | None:
    """The name of Remit's own tool where `tool`, as the agent spells it, is one of them."""
    found = re.fullmatch(row.mcp_name, tool)
    return own_tool(found["server"], found["tool"]) if found else None


def own_tool(server: str, tool: str) -> str | None:
    """`tool` where it is one of Remit's own, of Remit's own server."""
    return tool if server == "remit" and tool in REMIT_TOOLS else None


def operands(row: ToolRow, given: Object) -> Operands:
    """The paths, the command, and what is wrong with them."""
    if row.patch is not None:
        return patched(row.patch, given)
    values = [(key, given.get(key)) for key in (*row.paths, *([row.command] if row.command else []))]
    bad = next((key for key, value in values if not isinstance(value, str) or not value), None)
    paths = tuple(value for key, value in values if key in row.paths and isinstance(value, str) and value)
    command = given.get(row.command) if row.command else None
    found = Operands(paths, None, bad and f"{bad} is missing or no text", row.checks_itself, edit_of(row, given))
    return commanded(command, found) if isinstance(command, str) else found


def patched(key: str, given: Object) -> Operands:
    """The files that a patch names."""
    value = given.get(key)
    if not isinstance(value, str) or not value:
        return Operands(malformed=f"{key} is missing or no text")
    try:
        patch = parse_patch(value)
    except PatchError as error:
        return Operands(malformed=str(error))
    return Operands(patch.paths, checks_itself=patch.checks_itself, edit=Patching(patch))


def commanded(command: str, found: Operands) -> Operands:
    """A shell command, with the files of the patches in it."""
    try:
        patches = heredoc_patches(command)
    except PatchError as error:
        return Operands(found.paths, command, str(error))
    paths = (*found.paths, *(path for patch in patches for path in patch.paths))
    checked = all(patch.patch.checks_itself for patch in patches) if patches else found.checks_itself
    operations = tuple(operation for patch in patches for operation in patch.operations)
    edit = Patching(Patch(operations)) if operations else None
    return Operands(tuple(dict.fromkeys(paths)), command, found.malformed, checked, edit)


def started(document: Object, session: SessionKey, cwd: str) -> SessionStarted:
    """A session's start; the model stands there only in some versions."""
    source = optional(document, "source")
    known: Source = "other"
    for candidate in SOURCES:
        if candidate == source:
            known = candidate
    return SessionStarted(session, cwd, source=known, model=optional(document, "model"))


def milliseconds(document: Object) -> int | None:
    """How long the tool ran, where the agent says so."""
    value = document.get("duration_ms")
    return value if type(value) is int and 0 <= value < 2**53 else None


def exit_code(said: str) -> int | None:
    """The exit code that a result's text states: in its first words, or in the last line of that form.

    A command's own output may hold such a line; the agent's comes after it.
    """
    first = EXIT_AT_START.match(said)
    lines = [first[1]] if first else EXIT_LINE.findall(said)
    return int(lines[-1]) if lines else None


READ_ONLY = ("Read-only file system", "EROFS")
"""What programs say of a write that the system refuses (strerror(3) of EROFS in English, Node's name for it)."""


def names_read_only(*values: object) -> bool:
    """Whether one of a result's texts, or of their parts, speaks of a file system that cannot be written to."""
    parts = (part for value in values if not isinstance(value, str) for part in sequence(value))
    texts = [*values, *(mapping(part).get("text") for part in parts)]
    return any(word in text for text in texts if isinstance(text, str) for word in READ_ONLY)


def shown_positions(display: Object) -> dict[str, tuple[LineRange, ...]]:
    """The lines that a file tool says it wrote, from a unified diff in `fileDiff` of the file `filePath`.

    Nothing where the diff does not add up: it may be cut.
    """
    path, diff = display.get("filePath"), display.get("fileDiff")
    if not isinstance(path, str) or not isinstance(diff, str) or not posixpath.isabs(path):
        return {}
    found = diff_additions(diff.split("\n"))
    return {path: found} if found else {}


def diff_additions(lines: list[str]) -> tuple[LineRange, ...]:
    """Runs of added lines of a unified diff, by their number in the new file; none where a hunk is not whole."""
    runs: list[LineRange] = []
    at = 0
    while at < len(lines):
        head = HUNK.match(lines[at])
        at += 1
        if head is None:
            continue
        old, start, new = (int(n[:10]) if n else 1 for n in head.groups())
        body = hunk_body(lines[at:], old, new)
        if body is None:
            return ()
        runs += additions(body, start)
        at += len(body)
    return tuple(runs)


def hunk_body(lines: list[str], old: int, new: int) -> list[str] | None:
    """The lines of one hunk, by the counts of its head; None where they do not come."""
    for n, line in enumerate(lines):
        if old <= 0 and new <= 0:
            return lines[:n]
        sign = line[:1]
        if not sign or sign not in " +-\\":
            return None
        old -= sign in " -"
        new -= sign in " +"
    return lines if (old, new) == (0, 0) else None


def additions(lines: list[object] | list[str], start: object) -> list[LineRange]:
    """Runs of `+` lines of one hunk that begins at `start`, by their number in the new file."""
    if type(start) is not int or not 0 <= start < MOST_LINES:
        return []
    runs: list[LineRange] = []
    number = start
    for line in lines:
        sign = line[:1] if isinstance(line, str) else ""
        if sign == "+" and number > 0:
            if runs and runs[-1].end == number - 1:
                runs[-1] = LineRange(runs[-1].start, number)
            else:
                runs.append(LineRange(number, number))
        number += sign in ("+", " ")
    return runs
