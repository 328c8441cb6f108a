"""The tail of a request: the changes since the last request, in a frame after the newest words or results.

The system prompt stays equal for a mode, to keep the provider's cache; each change is reported here, once, and
keeps its place in the conversation. Among them are files that the session read or wrote and another writer changed
since: by content, never by time.
"""

from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path

from msgspec import Struct

from remit.core.call import SessionKey, SessionStarted
from remit.core.record import KEY
from remit.core.redaction import is_secret_file, redact
from remit.core.untrusted_input import as_object, sanitise_line
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.workspace.observe.observation import try_observe_file
from remit_agent.journal.history import frame_remarks
from remit_agent.journal.lines import LessonOfferedLine, TailLine
from remit_agent.messages import UserInput
from remit_agent.run import AGENT, FileChecks, Run

MAX_VERIFICATIONS = 200
MAX_COMMAND_CHARS = 120
MAX_NAMED_FILES = 10
MAX_DIFF_LINES = 20
MAX_DIFFED_BYTES = 64 * 1024


async def append_tail(run: Run) -> None:
    """Append the changes the model has to know before the next request, if there are any."""
    has_words = any(isinstance(item, UserInput) and item.by != "remit" for item in run.history.undelivered)
    parts = await run.access.run(lambda gate: collect_remarks(run, gate, has_words=has_words))
    day = datetime.fromtimestamp(run.clock(), UTC).strftime("%Y-%m-%d")
    if day != run.told_day:
        run.told_day = day
        parts.append(f"Today is {day}.")
    if run.history.mode != run.told_mode:
        parts += [f"The mode is now {run.history.mode}."] if run.told_mode else []
        run.told_mode = run.history.mode
    text = "\n\n".join(filter(None, parts))
    if text:
        run.append(TailLine(text=frame_remarks(text)))


def collect_remarks(run: Run, gate: Gate, *, has_words: bool) -> list[str]:
    """Return the gate's remarks; in the repository's turn. A failure is a remark of its own."""
    if not gate.is_governed:
        return []
    parts: list[str] = []
    try:
        if run.narrowed_mode != run.history.mode:
            gate.narrow(run.session, *run.narrowings, is_alone=True)  # they name the parents'
            run.narrowed_mode = run.history.mode
        if run.greeting is not None:
            source, run.greeting = run.greeting, None
            event = SessionStarted(run.session, str(run.cwd), source, run.provider.id)
            parts.append(gate.begin_session(event, AGENT))
            run.told_intent = find_intent_version(run, gate)
        if has_words:
            parts.append(gate.receive_prompt(run.session, AGENT))
        if (version := find_intent_version(run, gate)) != run.told_intent:
            parts.append(gate.intents.deliver_block(run.session, only_changed=True))
            run.told_intent = version
        changed = find_changed_files(gate, run.session, run.file_checks)
        parts += [describe_changed_files(changed), offer_lesson(run, gate)]
    except RECORDING_ERRORS as error:
        parts.append(f"Remit could not do all of its work ({sanitise_line(str(error), 200)}). Tell the person.")
    return parts


def find_intent_version(run: Run, gate: Gate) -> str:
    rules = gate.rules
    digest, statuses = rules.document.sha256 if rules.document else "", {i: d.status for i, d in rules.life.items()}
    return f"{gate.state.active_session(run.session).intent_id} {digest} {statuses}"


def offer_lesson(run: Run, gate: Gate) -> str:
    """Offer once to record the lesson of a check that failed earlier in the run and passes now; "" otherwise."""
    if not run.history.has_failed_check or not run.history.has_new_effects:
        return ""
    run.history.has_new_effects = False
    with gate.index() as index:
        found = index.find(event="verification", session_id=run.session.session_id, limit=MAX_VERIFICATIONS)
    latest: dict[str, bool] = {}
    for document in found:  # newest first
        detail = as_object(as_object(document["metadata"]).get(KEY))
        command, passed = str(detail.get("command", "")), detail.get("exit_code") == 0
        if latest.setdefault(command, passed) and not passed and command not in run.history.offered_lessons:
            run.append(LessonOfferedLine(check=command))
            shown = sanitise_line(command, MAX_COMMAND_CHARS)
            return (
                f"The check `{shown}` failed earlier in this run and passes now. If others can learn from what made "
                "the difference, call `record_lesson` with the problem and its resolution."
            )
    return ""


class OutdatedFile(Struct, frozen=True):
    """A file with a content different from the content the session last saw. `sha256` is "" if the file is gone."""

    path: str
    sha256: str
    diff: str


def find_changed_files(gate: Gate, session: SessionKey, checks: FileChecks) -> list[OutdatedFile]:
    """Return the files changed since the session saw them and not yet reported to the model. A file is
    read again only if its status changed.
    """
    found: list[OutdatedFile] = []
    for path, (digest, blob) in sorted(gate.state.list_seen_files(session).items()):
        status = read_status(gate.workspace.root / path)
        if status == checks.statuses.get(path):
            continue
        now = try_observe_file(gate.workspace.root / path)
        checks.statuses[path] = status
        current = now.version.sha256 if now else ""
        if current in (digest, checks.told.get(path, digest)):
            continue
        checks.told[path] = current
        diff = ""
        if now is not None and now.content is not None and not is_secret_file(path):
            diff = describe_difference(gate.contents.load(blob), now.content)
        found.append(OutdatedFile(path, current, diff))
    return found


def read_status(path: Path) -> tuple[int, ...]:
    """Return numbers that change with every write, among them the time no program can set; () for no file."""
    try:
        status = path.lstat()
    except OSError:
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def describe_difference(before: bytes | None, after: bytes) -> str:
    """Return a short diff without secrets; "" for contents that are large, no text, or unknown."""
    if before is None or len(before) > MAX_DIFFED_BYTES or len(after) > MAX_DIFFED_BYTES or b"\0" in before + after:
        return ""
    old, new = (side.decode("utf-8", "replace").splitlines() for side in (before, after))
    lines = [*unified_diff(old, new, lineterm="", n=1)][2:]
    shown = [sanitise_line(redact(line), 200) for line in lines[:MAX_DIFF_LINES]]
    return "\n".join([*shown, *(["…"] if len(lines) > MAX_DIFF_LINES else [])])


def describe_changed_files(files: list[OutdatedFile]) -> str:
    """Return what the model is told; "" for no files."""
    if not files:
        return ""
    lines = ["Changed by somebody else since you last saw them; read them again before you edit them:"]
    for file in files[:MAX_NAMED_FILES]:
        lines += [f"- {sanitise_line(file.path, 200)}{'' if file.sha256 else ' (deleted)'}", *filter(None, [file.diff])]
    if len(files) > MAX_NAMED_FILES:
        lines.append(f"… and {len(files) - MAX_NAMED_FILES} more")
    return "\n".join(lines)
