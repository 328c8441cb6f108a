"""Parsing of hook payloads, shared by the dialects. Payloads are untrusted: each value is checked before use."""

import posixpath
import re
from typing import Literal, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.adapters.agent_row import AdapterError, AgentRow, ToolRow
from remit.core.call import REMIT_TOOLS, SessionKey, ToolCall, hash_arguments
from remit.core.diff.contents import LineRange
from remit.core.diff.edits import CellEdit, Edit, Patching, Replacement, Replacements, WholeFile
from remit.core.diff.patch import Patch, PatchError, parse_patch
from remit.core.diff.shell_patches import find_shell_patches
from remit.core.events import SessionStarted, StartSource
from remit.core.json_guards import as_array, as_object

JsonObject: TypeAlias = dict[str, object]
CellMode: TypeAlias = Literal["replace", "insert", "delete"]

CELL_MODES: dict[object, CellMode] = {"replace": "replace", "insert": "insert", "delete": "delete"}

UNLISTED_TOOL = ToolRow("execute", whole_workspace=True)
SESSION_SOURCES: tuple[StartSource, ...] = ("startup", "resume", "clear", "compact")
SUMMARY_CHARS = 300
MAX_LINES = 2**31

CHANGED_BY_PERSON_KEY, PROPOSAL_KEY = "modified_by_user", "ai_proposed_content"
"""Arguments that Gemini CLI and Qwen Code add to a file tool's call after a person changed the call.

Source: their `createUpdatedParams`, read 2026-11.
"""

HUNK_HEADER = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
EXIT_AT_START = re.compile(r"Exit code:? (\d{1,3})\b")
EXIT_LINE = re.compile(r"^Exit Code: (\d{1,3})$", re.MULTILINE)


class CallOperands(Struct, frozen=True):
    """The objects of a call. `malformed` is the reason if they cannot be determined."""

    paths: tuple[str, ...] = ()
    command: str | None = None
    malformed: str | None = None
    checks_itself: bool = False
    edit: Edit | None = None


def decode_payload(row: AgentRow, payload: bytes) -> JsonObject:
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AdapterError(row.agent, f"it is not JSON ({str(error)[:200]})") from error
    if not isinstance(document, dict):
        raise AdapterError(row.agent, f"it is a JSON {type(document).__name__}, not an object")
    return as_object(cast("object", document))


def require_text(row: AgentRow, document: JsonObject, key: str) -> str:
    """Return a required, non-empty string. Raises AdapterError."""
    value = document.get(key)
    if not isinstance(value, str) or not value:
        raise AdapterError(row.agent, f"{key} is missing or no text")
    return value


def require_folder(row: AgentRow, document: JsonObject, key: str) -> str:
    """Return a required folder name without NUL. Raises AdapterError."""
    value = require_text(row, document, key)
    if "\0" in value:
        raise AdapterError(row.agent, f"{key} holds a NUL, and names no folder")
    return value


def optional_text(document: JsonObject, key: str) -> str | None:
    """Return a text; None for other values."""
    value = document.get(key)
    return value if isinstance(value, str) else None


def build_tool_call(
    row: AgentRow, document: JsonObject, session: SessionKey, cwd: str, remit_tool: str | None, transcript: str | None
) -> ToolCall:
    """Return the call, interpreted by the tool's row; an unlisted tool counts as executing."""
    tool = require_text(row, document, "tool_name")
    tool_row = find_tool_row(row, tool, remit_tool)
    call = ToolCall(
        agent=row.agent,
        session=session,
        tool=tool,
        effect=tool_row.effect,
        cwd=cwd,
        call_id=optional_text(document, "tool_use_id") or "",
        remit_tool=remit_tool,
        whole_workspace=tool_row.whole_workspace,
        transcript=transcript,
        permission_mode=optional_text(document, "permission_mode") or "",
    )
    return apply_arguments(row, call, as_object(document.get("tool_input")))


def find_tool_row(row: AgentRow, tool: str, remit_tool: str | None) -> ToolRow:
    return ToolRow("meta") if remit_tool else row.tools.get(tool, UNLISTED_TOOL)


def apply_arguments(row: AgentRow, call: ToolCall, given: JsonObject) -> ToolCall:
    """Return the call with the given arguments, and with the fields derived from them."""
    found = parse_operands(find_tool_row(row, call.tool, call.remit_tool), given)
    return replace(
        call,
        paths=found.paths,
        command=found.command,
        arguments_sha256=hash_arguments(given),
        malformed=found.malformed,
        checks_itself=found.checks_itself,
        has_unwatched_stdin=row.has_unwatched_stdin,
        arguments=given,
        edit=found.edit,
        proposal=find_proposal(given),
    )


def find_proposal(given: JsonObject) -> str | None:
    """Return the agent's proposal if a person changed the arguments in an editor; None otherwise.

    For search/replace edits some versions put the file's old content there, which contains no new line.
    """
    return (optional_text(given, PROPOSAL_KEY) or "") if given.get(CHANGED_BY_PERSON_KEY) is True else None


def find_remit_tool_name(row: AgentRow, tool: str) -> str | None:
    """Return the name of Remit's own tool if `tool`, in the agent's spelling, is one."""
    found = re.fullmatch(row.mcp_name, tool)
    return match_remit_tool(found["server"], found["tool"]) if found else None


def match_remit_tool(server: str, tool: str) -> str | None:
    """Return `tool` if it is one of Remit's own tools on Remit's own server."""
    return tool if server == "remit" and tool in REMIT_TOOLS else None


def parse_operands(row: ToolRow, given: JsonObject) -> CallOperands:
    """Return the paths, the command and the edit of a call, or the reason why they are malformed."""
    if row.patch is not None:
        return parse_patch_operands(row.patch, given)
    values = [(key, given.get(key)) for key in (*row.paths, *([row.command] if row.command else []))]
    bad = next((key for key, value in values if not isinstance(value, str) or not value), None)
    paths = tuple(value for key, value in values if key in row.paths and isinstance(value, str) and value)
    command = given.get(row.command) if row.command else None
    found = CallOperands(paths, None, bad and f"{bad} is missing or no text", row.checks_itself, parse_edit(row, given))
    return add_command_operands(command, found) if isinstance(command, str) else found


def parse_patch_operands(key: str, given: JsonObject) -> CallOperands:
    """Return the files and the edit of a patch."""
    value = given.get(key)
    if not isinstance(value, str) or not value:
        return CallOperands(malformed=f"{key} is missing or no text")
    try:
        patch = parse_patch(value)
    except PatchError as error:
        return CallOperands(malformed=str(error))
    return CallOperands(patch.paths, checks_itself=patch.checks_itself, edit=Patching(patch))


def add_command_operands(command: str, found: CallOperands) -> CallOperands:
    """Return the operands of a shell command, including the files of patches in its heredocs."""
    try:
        patches = find_shell_patches(command)
    except PatchError as error:
        return CallOperands(found.paths, command, str(error))
    paths = (*found.paths, *(path for patch in patches for path in patch.paths))
    checked = all(patch.patch.checks_itself for patch in patches) if patches else found.checks_itself
    operations = tuple(operation for patch in patches for operation in patch.operations)
    edit = Patching(Patch(operations)) if operations else None
    return CallOperands(tuple(dict.fromkeys(paths)), command, found.malformed, checked, edit)


def build_session_start(document: JsonObject, session: SessionKey, cwd: str) -> SessionStarted:
    """Return a session's start; only some versions state the model."""
    source = optional_text(document, "source")
    known: StartSource = "other"
    for candidate in SESSION_SOURCES:
        if candidate == source:
            known = candidate
    return SessionStarted(session, cwd, source=known, model=optional_text(document, "model"))


def parse_duration_ms(document: JsonObject) -> int | None:
    """Return the tool's duration if the agent states it."""
    value = document.get("duration_ms")
    return value if type(value) is int and 0 <= value < 2**53 else None


def find_stated_exit_code(result: str) -> int | None:
    """Return the exit code stated in a result's text: in its first words, or in the last line of that form.

    A command's own output may contain such a line; the agent's line comes after the output.
    """
    first = EXIT_AT_START.match(result)
    lines = [first[1]] if first else EXIT_LINE.findall(result)
    return int(lines[-1]) if lines else None


READ_ONLY_ERRORS = ("Read-only file system", "EROFS")
"""Messages of programs about a refused write: strerror(3) of EROFS in English, and Node's name for the error."""


def has_read_only_error(*values: object) -> bool:
    """Return True if a text of a result, or of one of its parts, mentions a read-only file system."""
    parts = (part for value in values if not isinstance(value, str) for part in as_array(value))
    texts = [*values, *(as_object(part).get("text") for part in parts)]
    return any(word in text for text in texts if isinstance(text, str) for word in READ_ONLY_ERRORS)


def find_diff_lines(display: JsonObject) -> dict[str, tuple[LineRange, ...]]:
    """Return the written lines by a file tool's unified diff, `fileDiff`, of the file `filePath`.

    Returns nothing if the diff is inconsistent: it may be cut.
    """
    path, diff = display.get("filePath"), display.get("fileDiff")
    if not isinstance(path, str) or not isinstance(diff, str) or not posixpath.isabs(path):
        return {}
    found = find_added_lines(diff.split("\n"))
    return {path: found} if found else {}


def find_added_lines(lines: list[str]) -> tuple[LineRange, ...]:
    """Return the added lines of a unified diff as ranges of the new file; none if a hunk is incomplete."""
    runs: list[LineRange] = []
    at = 0
    while at < len(lines):
        head = HUNK_HEADER.match(lines[at])
        at += 1
        if head is None:
            continue
        old, start, new = (int(n[:10]) if n else 1 for n in head.groups())
        body = read_hunk_body(lines[at:], old, new)
        if body is None:
            return ()
        runs += find_hunk_additions(body, start)
        at += len(body)
    return tuple(runs)


def read_hunk_body(lines: list[str], old: int, new: int) -> list[str] | None:
    """Return the lines of one hunk, by the counts in its header; None if lines are missing."""
    for n, line in enumerate(lines):
        if old <= 0 and new <= 0:
            return lines[:n]
        sign = line[:1]
        if not sign or sign not in " +-\\":
            return None
        old -= sign in " -"
        new -= sign in " +"
    return lines if (old, new) == (0, 0) else None


def find_hunk_additions(lines: list[object] | list[str], start: object) -> list[LineRange]:
    """Return the runs of `+` lines of a hunk that begins at `start`, as line numbers of the new file."""
    if type(start) is not int or not 0 <= start < MAX_LINES:
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


# --- edits of file tools -----------------------------------------------------------------------------------


def parse_edit(row: ToolRow, given: JsonObject) -> Edit | None:
    """Return the edit described by a file tool's arguments; None if the row or the arguments do not describe one."""
    if row.content is not None:
        content = given.get(row.content)
        return WholeFile(content) if isinstance(content, str) else None
    if row.edits_notebook:
        return parse_cell_edit(given)
    if row.old_text is None:
        return None
    listed = as_array(given.get(row.edits)) if row.edits else [given]
    steps: list[Replacement] = []
    for step in map(as_object, listed):
        old, new = step.get(row.old_text), step.get(row.new_text or "")
        if not isinstance(old, str) or not isinstance(new, str):
            return None
        every = row.replace_all is not None and step.get(row.replace_all) is True
        steps.append(Replacement(old, new, every=every))
    return Replacements(tuple(steps)) if steps else None


def parse_cell_edit(given: JsonObject) -> CellEdit | None:
    source, cell, kind = given.get("new_source", ""), given.get("cell_id"), given.get("cell_type")
    mode = CELL_MODES.get(str(given.get("edit_mode") or "replace"))
    if not isinstance(source, str) or mode is None:
        return None
    return CellEdit(source, cell if isinstance(cell, str) else None, kind if isinstance(kind, str) else None, mode)
