"""Payloads of agents' hooks and the answers to them, shared by the dialects.

Payloads are untrusted: each value is checked before use.
"""

import json
import posixpath
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.agents.row import AgentRow, RowEvent, ToolRow
from remit.core.call import (
    REMIT_TOOLS,
    AfterCall,
    BeforeCall,
    HookEvent,
    IgnoredEvent,
    Outcome,
    PromptGiven,
    SessionEnded,
    SessionKey,
    SessionStarted,
    StartSource,
    ToolCall,
    TurnEnded,
    hash_arguments,
)
from remit.core.decision import Decision
from remit.core.diff.contents import LineRange
from remit.core.diff.edits import Edit, Patching, Replacement, Replacements, WholeFile
from remit.core.diff.formats import Patch, PatchError, parse_patch
from remit.core.diff.notebooks import CellEdit
from remit.core.shell_commands import find_shell_patches
from remit.core.untrusted_input import as_array, as_object

JsonObject: TypeAlias = dict[str, object]
CellMode: TypeAlias = Literal["replace", "insert", "delete"]

CELL_MODES: dict[object, CellMode] = {"replace": "replace", "insert": "insert", "delete": "delete"}

ParseOutcome: TypeAlias = Callable[[AgentRow, JsonObject, bool], Outcome]
"""The result in a payload after a call; True if the event itself reports a failure."""

SESSION_SOURCES: dict[object, StartSource] = {
    "startup": "startup", "resume": "resume", "clear": "clear", "compact": "compact"
}  # fmt: skip
FOLDER_KEYS = ("workdir", "dir_path", "directory", "cwd", "working_directory")
"""Arguments of agents' shell tools that name a folder. Whether an agent's version follows one is not known."""
SUMMARY_CHARS = 300
MAX_LINES = 2**31

CHANGED_BY_PERSON_KEY, PROPOSAL_KEY = "modified_by_user", "ai_proposed_content"
"""Arguments that Gemini CLI and Qwen Code add to a file tool's call after a person changed the call.

Source: their `createUpdatedParams`, read 2026-11.
"""

HUNK_HEADER = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
EXIT_AT_START = re.compile(r"Exit code:? (\d{1,3})\b")
EXIT_LINE = re.compile(r"^Exit Code: (\d{1,3})$", re.MULTILINE)


class AdapterError(ValueError):
    """A payload that is not of the agent's form."""

    def __init__(self, agent: str, why: str) -> None:
        super().__init__(f"this is no hook payload of {agent}: {why}")
        self.agent = agent
        self.why = why


def require_text(row: AgentRow, document: JsonObject, key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value:
        raise AdapterError(row.agent, f"{key} is missing or no text")
    return value


def optional_text(document: JsonObject, key: str) -> str | None:
    value = document.get(key)
    return value if isinstance(value, str) else None


def parse_event(row: AgentRow, payload: bytes, parse_outcome: ParseOutcome) -> HookEvent:
    """Parse the event in `payload`. Raises AdapterError for a payload of another form."""
    try:
        decoded = decode_payload(payload)
    except (ValueError, RecursionError) as error:
        raise AdapterError(row.agent, f"it is not JSON ({str(error)[:200]})") from error
    if not isinstance(decoded, dict):
        raise AdapterError(row.agent, f"it is a JSON {type(decoded).__name__}, not an object")
    document = as_object(cast("object", decoded))
    name, cwd = require_text(row, document, "hook_event_name"), require_text(row, document, "cwd")
    if "\0" in cwd:
        raise AdapterError(row.agent, "cwd holds a NUL, and names no folder")
    session = SessionKey(require_text(row, document, "session_id"), optional_text(document, "agent_id") or "")
    match row.events.get(name):
        case "before":
            return BeforeCall(parse_call(row, document, session, cwd))
        case "after" | "failed" as kind:
            call = parse_call(row, document, session, cwd)
            return AfterCall(call, parse_outcome(row, document, kind == "failed"), failed=kind == "failed")
        case "session_start":
            source = SESSION_SOURCES.get(optional_text(document, "source"), "other")
            return SessionStarted(session, cwd, source=source, model=optional_text(document, "model"))
        case "prompt":
            return PromptGiven(session, cwd, optional_text(document, "prompt_id") or "")
        case "turn_end":
            return TurnEnded(session, cwd)
        case "session_end":
            return SessionEnded(session, cwd, optional_text(document, "reason") or "")
        case None:
            return IgnoredEvent(name, cwd)


def decode_payload(payload: bytes) -> object:
    """Return the JSON document. Characters that are none are replaced: half an emoji, where an agent cut its output by
    UTF-16 units, and bytes that are no UTF-8. A byte order mark is left out. Raises ValueError, RecursionError.
    """
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Python's reader takes halves of characters, which msgspec does not.
        text = json.dumps(json.loads(payload.decode(json.detect_encoding(payload), "replace")), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def parse_call(row: AgentRow, document: JsonObject, session: SessionKey, cwd: str) -> ToolCall:
    tool = require_text(row, document, "tool_name")
    # `mcp_a_b_c` leaves the name of Gemini's server open; `mcp_context` states it.
    named = re.fullmatch(row.mcp_name, tool)
    server, name = (named["server"], named["tool"]) if named else (None, None)
    if "mcp_context" in document:
        context = as_object(document["mcp_context"])
        server, name = optional_text(context, "server_name"), optional_text(context, "tool_name")
    remit_tool = name if server == "remit" and name in REMIT_TOOLS else None
    # A sub-agent may have a conversation of its own beside its parent's.
    transcript = optional_text(document, "transcript_path")
    if transcript is not None and session.agent_id and row.has_subagent_transcripts:
        transcript = f"{transcript.removesuffix('.jsonl')}/subagents/agent-{session.agent_id}.jsonl"
    call = ToolCall(
        agent=row.agent,
        session=session,
        tool=tool,
        effect="execute",
        cwd=cwd,
        call_id=optional_text(document, "tool_use_id") or "",
        remit_tool=remit_tool,
        transcript=transcript,
        permission_mode=optional_text(document, "permission_mode") or "",
    )
    given = document.get("tool_input")
    call = apply_arguments(row, call, as_object(given))
    if given is not None and not isinstance(given, dict):
        effect = "execute" if call.effect == "unproved" else call.effect
        return replace(call, effect=effect, malformed="tool_input is no object")
    return call


def apply_arguments(row: AgentRow, call: ToolCall, given: JsonObject) -> ToolCall:
    """Return the call with the given arguments, and with the fields derived from them."""
    tool = ToolRow("meta") if call.remit_tool else row.tools.get(call.tool)
    if tool is None:
        # Imported here: most calls are of a listed tool.
        from remit.adapters.unlisted_tools import classify_unlisted

        found = classify_unlisted(given)
        return replace(
            call,
            effect=found.effect,
            paths=(*found.paths, *(text for text in found.guesses if text.startswith("/"))),
            is_unlisted=True,
            whole_workspace=True,
            arguments_sha256=hash_arguments(given),
            has_unwatched_stdin=row.has_unwatched_stdin,
            arguments=given,
        )
    paths: tuple[str, ...] = ()
    command: str | None = None
    malformed: str | None = None
    checks_itself = tool.checks_itself
    edit: Edit | None = None
    try:
        if tool.patch is not None:
            value = given.get(tool.patch)
            if isinstance(value, str) and value:
                patch = parse_patch(value)
                paths, checks_itself, edit = patch.paths, patch.checks_itself, Patching(patch)
            else:
                malformed = f"{tool.patch} is missing or no text"
        else:
            malformed = find_wrong_argument(tool, given)
            paths = tuple(value for key in tool.paths if isinstance(value := given.get(key), str) and value)
            edit = parse_edit(tool, given)
        value = given.get(tool.command) if tool.command else None
        if isinstance(value, str):
            command, edit = value, None
            # The files of patches in its heredocs
            if patches := find_shell_patches(command):
                patch = Patch(tuple(operation for patch in patches for operation in patch.operations))
                paths = tuple(dict.fromkeys((*paths, *patch.paths)))
                checks_itself, edit = patch.checks_itself, Patching(patch)
    except PatchError as error:
        malformed, checks_itself = str(error), False
    return replace(
        call,
        effect=tool.effect,
        whole_workspace=tool.whole_workspace,
        paths=paths,
        command=command,
        given_folder=find_given_folder(call.cwd, given) if command is not None else "",
        arguments_sha256=hash_arguments(given),
        malformed=malformed,
        checks_itself=checks_itself,
        has_unwatched_stdin=row.has_unwatched_stdin,
        arguments=given,
        edit=edit,
        # Of search/replace edits some versions propose the file's old content, which contains no new line.
        proposal=(optional_text(given, PROPOSAL_KEY) or "") if given.get(CHANGED_BY_PERSON_KEY) is True else None,
    )


def find_wrong_argument(tool: ToolRow, given: JsonObject) -> str | None:
    """Return which argument of a listed tool is missing or of the wrong type; None if all fit."""
    for key in (*tool.paths, *([tool.command] if tool.command else [])):
        if not isinstance(value := given.get(key), str) or not value:
            return f"{key} is missing or no text"
    if tool.content is not None and not isinstance(given.get(tool.content), str):
        return f"{tool.content} is missing or no text"
    if tool.edits_notebook and not isinstance(given.get("new_source", ""), str):
        return "new_source is no text"
    if tool.old_text is None:
        return None
    steps = as_array(given.get(tool.edits)) if tool.edits else [given]
    if not steps:
        return f"{tool.edits} is missing or no list"
    for step in map(as_object, steps):
        wrong = next((key for key in (tool.old_text, tool.new_text) if not isinstance(step.get(key or ""), str)), None)
        if wrong is not None:
            return f"{wrong} is missing or no text"
        if tool.replace_all is not None and not isinstance(step.get(tool.replace_all, False), bool):
            return f"{tool.replace_all} is neither true nor false"
    return None


def find_given_folder(cwd: str, given: JsonObject) -> str:
    """Return the folder that the arguments of a shell tool name, unless it is the agent's own."""
    named = next((value for key in FOLDER_KEYS if isinstance(value := given.get(key), str) and value), "")
    folder = posixpath.normpath(posixpath.join(cwd, named))
    return folder if "\0" not in folder and folder != posixpath.normpath(cwd) else ""


def parse_duration_ms(document: JsonObject) -> int | None:
    value = document.get("duration_ms")
    return value if type(value) is int and 0 <= value < 2**53 else None


def find_stated_exit_code(result: str) -> int | None:
    """Return the exit code stated in a result's text: in its first words, or in the last line of that form.

    A command's own output may contain such a line; the agent's line comes after the output.
    """
    first = EXIT_AT_START.match(result)
    lines = [first[1]] if first else EXIT_LINE.findall(result)
    return int(lines[-1]) if lines else None


REMIT_NOT_FOUND = re.compile(r"\bremit: (command )?not found\b|ommand not found: remit\b|nknown command: remit\b")
READ_ONLY_ERROR = re.compile(
    r"read[- ]?only file ?system|\bEROFS\b|\berrno:? ?30\b|\bos error 30\b|readonly database|dateisystem ist nur lesbar"
    r"|syst[eè]me de fichiers (?:accessible )?en lecture seule|sistema de (?:ficheros|archivos) de s[oó]lo lectura"
    r"|file ?system in sola lettura|sistema de ficheiros s[oó] de leitura|sistema de arquivos somente para leitura"
    r"|bestandssysteem is alleen-lezen|alleen-lezen bestandssysteem|system plików wyłącznie do odczytu"
    r"|доступна только для чтения|лише для читання|読み(?:込み|取り)専用|只读文件系统|唯讀檔案系統"
    r"|읽기 ?전용 파일 ?시스템|filsystem(?:et)? är skrivskyddat|skrivskyddat filsystem|skrivebeskyttet filsystem"
    r"|souborů je pouze pro čtení|salt-?okunur dosya|csak olvasható fájlrendszer",
    re.IGNORECASE,
)
"""Messages of programs about a refused write: strerror(3) of EROFS in the languages of glibc, the names and numbers
that Python, Node, Ruby, Go and Rust give the error, and SQLite's own words."""


def has_read_only_error(*values: object) -> bool:
    """Return True if a text of a result, or of one of its parts, mentions a read-only file system."""
    return has_text(READ_ONLY_ERROR, values)


def lacks_remit(*values: object) -> bool:
    """Return True if a text of a result, or of one of its parts, says that the shell found no `remit`."""
    return has_text(REMIT_NOT_FOUND, values)


def has_text(pattern: re.Pattern[str], values: Sequence[object]) -> bool:
    parts = (part for value in values if not isinstance(value, str) for part in as_array(value))
    texts = [*values, *(as_object(part).get("text") for part in parts)]
    return any(pattern.search(text) for text in texts if isinstance(text, str))


def find_diff_lines(display: JsonObject) -> dict[str, tuple[LineRange, ...]]:
    """Return the written lines by a file tool's unified diff, `fileDiff`, of the file `filePath`.

    Returns nothing if a hunk is incomplete: the diff may be cut.
    """
    path, diff = display.get("filePath"), display.get("fileDiff")
    if not isinstance(path, str) or not isinstance(diff, str) or not posixpath.isabs(path):
        return {}
    found: list[LineRange] = []
    lines = deque(diff.split("\n"))
    while lines:
        head = HUNK_HEADER.match(lines.popleft())
        if head is None:
            continue
        old, start, new = (int(n[:10]) if n else 1 for n in head.groups())
        body: list[str] = []
        while old > 0 or new > 0:
            sign = lines[0][:1] if lines else ""
            if not sign or sign not in " +-\\":
                return {}
            old, new = old - (sign in " -"), new - (sign in " +")
            body.append(lines.popleft())
        if (old, new) != (0, 0) and not lines:
            return {}
        found += find_hunk_additions(body, start)
    return {path: tuple(found)} if found else {}


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


DEFAULT_DENIAL = "Remit refused this call."
"""Reason for a denial without one: some agents run a tool if the denial has no reason."""


class HookReply(Struct, frozen=True):
    """The answer to the agent's hook process."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


def can_continue(row: AgentRow, decision: Decision, arguments: dict[str, object] | None) -> bool:
    """Return True if the call may proceed; a contained call only with the arguments that contain it."""
    return decision.effect == "allow" or (decision.effect == "contain" and bool(arguments) and row.rewrites != "")


def find_row_event(event: HookEvent) -> RowEvent | None:
    """Return the kind of an event whose answer may say something; None for other events."""
    match event:
        case BeforeCall():
            return "before"
        case AfterCall(failed=failed):
            return "failed" if failed else "after"
        case SessionStarted():
            return "session_start"
        case PromptGiven():
            return "prompt"
        case _:
            return None
