"""Why an effect of a contained command was dropped, beyond what the checks say of it; and all of it in words."""

from collections.abc import Sequence
from pathlib import Path

from remit.core.decision import ErrorType, Finding
from remit.core.text import shown
from remit.workspace.sandbox.running import Ended


def objection(code: ErrorType, path: str, message: str) -> Finding:
    """One reason of containment's own."""
    return Finding(rule="contained", code=code, message=message, path=path)


def meanwhile(path: str) -> Finding:
    """Somebody else changed the file while the command ran."""
    return objection("STALE_FILE", path, f"{shown(path)} was changed by somebody else while the command ran.")


def unwritten(path: str, why: str) -> Finding:
    """A change that may stay could not be made."""
    return objection("STALE_FILE", path, f"{shown(path)} could not be written: {why}.")


def too_much(ended: Ended) -> Finding:
    """The command wrote more than it may: nothing of it is kept."""
    return objection("COMMAND_BLOCKED", ".", f"nothing was kept: {ended.stopped}.")


MOST_NAMED = 20


def in_words(ended: Ended, kept: Sequence[str], findings: Sequence[Finding], aside: Path) -> str:
    """What a model, or a person, has to know of what came of it; empty where all of it stayed."""
    lines = [f"Remit: the command was stopped: {ended.stopped}."] if ended.stopped else []
    if not findings:
        return "\n".join(lines)
    codes = ", ".join(dict.fromkeys(f.code for f in findings))
    lines.append(f"Remit [{codes}]: the command ran contained. Files kept: {len(kept)}; dropped:")
    lines += [f"  {shown(f.path or '', 200)}: {f.message}" for f in findings[:MOST_NAMED]]
    if len(findings) > MOST_NAMED:
        lines.append(f"  … and {len(findings) - MOST_NAMED} more")
    if any(f.code == "STALE_FILE" for f in findings):
        lines.append(f"This command's version of what others changed is kept in {aside}.")
    lines.append("What was dropped is as it was before. Stay in the scope, or ask the person to widen it.")
    return "\n".join(lines)
