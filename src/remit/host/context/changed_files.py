"""Files read or written by a session and changed since by another writer: by content, never by time."""

from difflib import unified_diff
from pathlib import Path

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.redaction import is_secret_file, redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.host.run import FileChecks
from remit.workspace.observe.observation import try_observe_file

MAX_NAMED_FILES = 10
MAX_DIFF_LINES = 20
MAX_DIFFED_BYTES = 64 * 1024


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
