"""Findings of containment's own, and the messages about a contained command."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from remit.core.decision import ErrorType, Finding
from remit.core.display_text import sanitise_line
from remit.policy.commands.background import LONE_AMPERSAND, leaves_process_running
from remit.workspace.sandbox.layer_changes import MAX_DEPTH, MAX_PATH_BYTES, ChangeKind
from remit.workspace.sandbox.run_command import CommandEnd


def make_finding(code: ErrorType, path: str, message: str) -> Finding:
    return Finding(rule="contained", code=code, message=message, path=path)


def describe_path(code: ErrorType, path: str, why: str) -> Finding:
    """Return a finding whose message is the path followed by `why`."""
    return make_finding(code, path, f"{sanitise_line(path)} {why}.")


# -- files --------------------------------------------------------------------------------------------------


def concurrent_change(path: str) -> Finding:
    return describe_path("STALE_FILE", path, "was changed by somebody else while the command ran")


def concurrent_deletion(path: str) -> Finding:
    return describe_path("STALE_FILE", path, "was taken away by somebody else while the command ran")


def special_file(path: str, kind: ChangeKind) -> Finding:
    """Return the finding for a pipe, a socket, a device, or a folder too deep to inspect."""
    if kind == "deep":
        why = f"lies more than {MAX_DEPTH} folders deep, or at a path of more than {MAX_PATH_BYTES} bytes"
    else:
        why = f"is a {kind}, which is never brought over"
    return describe_path("COMMAND_BLOCKED", path, why)


def new_worktree(path: str) -> Finding:
    why = "is a work tree of its own, which no contained command makes: run `git worktree add` alone, or ask the person"
    return describe_path("COMMAND_BLOCKED", path, why)


def stripped_privileges(path: str) -> Finding:
    """Return the finding for a kept file that lost its set-user-ID, set-group-ID or sticky bit."""
    why = "was kept without its set-user-ID, set-group-ID or sticky bit: only a person gives one"
    return describe_path("COMMAND_BLOCKED", path, why)


def escaping_link(path: str) -> Finding:
    """Return the finding for a link out of the workspace that a running call might write through."""
    why = "is a link that leads out of the workspace, made while another call runs: make it again afterwards"
    return describe_path("OUTSIDE_WORKSPACE", path, why)


def link_in_use(path: str, link: str) -> Finding:
    """Return the finding for a link on the way to a file that a running call may write."""
    why = f"the link {sanitise_line(link)} lies on the way to a file that another call is writing"
    return describe_path("STALE_FILE", path, f"is as it was: {why}: make it again afterwards")


def write_failure(path: str, why: str) -> Finding:
    return describe_path("STALE_FILE", path, f"could not be written: {why}")


def oversized_file(path: str) -> Finding:
    return describe_path("COMMAND_BLOCKED", path, "is larger than 4 GiB, and nothing that large is kept")


def limit_exceeded(ended: CommandEnd) -> Finding:
    """Return the finding for a command beyond its size limit: no change is kept."""
    return make_finding("COMMAND_BLOCKED", ".", f"nothing was kept: {ended.stop_text}.")


# -- git ----------------------------------------------------------------------------------------------------

OTHER_VERSION_ADVICE = "git was to bring another version of it: ask the person to run this command"


def git_part_dropped(folder: str, why: str) -> Finding:
    return make_finding("PROTECTED_PATH", folder, f"what it did to git's own folder was dropped: {why}.")


def describe_unnamed_commits(commits: Sequence[str]) -> str:
    """Describe commits that were kept without a name; "" for none."""
    if not commits:
        return ""
    few = ", ".join(commits[:3]) + (", …" if len(commits) > 3 else "")
    return f" Its commits are kept without a name until git prunes them: {few}. Only a person can name them."


def remit_ref(folder: str, path: str) -> Finding:
    return make_finding("PROTECTED_PATH", f"{folder}/{path}", "only Remit writes this ref: it is as it was before.")


def refused_settings(path: str, keys: Sequence[str]) -> Finding:
    few = ", ".join(sanitise_line(key, 80) for key in keys[:5]) + (", …" if len(keys) > 5 else "")
    return make_finding("PROTECTED_PATH", path, f"these settings are as before: {few}. A person sets them.")


def foreign_content(found: Finding, path: str, commit: str) -> Finding:
    """Return the finding for out-of-scope content in a commit or the index that no working tree held."""
    holder = f"commit {commit[:12]}" if commit else "the index"
    message = f"{holder} holds a {sanitise_line(path)} that is not the one in the working tree: {found.message}"
    return make_finding(found.code, path, message)


def stale_file(path: str, found: Finding) -> Finding:
    """Return the finding for a file that HEAD moved away from."""
    if found.code == "PROTECTED_PATH":
        return describe_path(found.code, path, f"governs agents, and {OTHER_VERSION_ADVICE}")
    why = "would be left as a change that nobody made: HEAD moved to another version of it, and the file did not"
    return describe_path("SCOPE_VIOLATION", path, f"{why}. Use `git switch`, `git merge` or `git pull`")


def half_brought_file(path: str) -> Finding:
    """Return the finding for a file brought by git before git stopped."""
    why = "git stopped half-way, so none of its changes stay. If it met a read-only file, the file governs agents, and"
    return describe_path("PROTECTED_PATH", path, f"is as before: {why} {OTHER_VERSION_ADVICE}")


def unmerged_conflict(path: str) -> Finding:
    why = "is in conflict, and lies outside the scope: a person has to merge it"
    return describe_path("SCOPE_VIOLATION", path, why)


def reverted_with_git(path: str) -> Finding:
    return describe_path("PROTECTED_PATH", path, "is as before: what git did with it was dropped")


# -- the whole result ---------------------------------------------------------------------------------------

ADVICE_BY_CODE: Mapping[ErrorType, str] = {
    "SCOPE_VIOLATION": "Stay in the scope, or ask the person to widen it.",
    "CONSTRAINT_VIOLATION": "Do it again so that the constraint holds, or ask the person for another one.",
    "STALE_FILE": "Read files changed by others again before you continue.",
}
DEFAULT_ADVICE = "If the work needs such a change, ask the person."

MAX_NAMED_FINDINGS = 20
MAX_FOLDER_FINDINGS = 5


def describe_result(ended: CommandEnd, kept: Sequence[str], findings: Sequence[Finding], aside: Path) -> str:
    """Return the message about a command's result; "" if every change was kept."""
    lines = [f"Remit: the command was stopped: {ended.stop_text}."] if ended.stop_text else []
    if not findings:
        return "\n".join(lines)
    codes = ", ".join(dict.fromkeys(f.code for f in findings))
    lines.append(f"Remit [{codes}]: the command ran contained. Files kept: {len(kept)}; dropped:")
    details = list(format_findings(findings))
    lines += details[:MAX_NAMED_FINDINGS]
    if len(details) > MAX_NAMED_FINDINGS:
        lines.append(f"  … and {len(details) - MAX_NAMED_FINDINGS} more")
    if any(f.code == "STALE_FILE" for f in findings):
        lines.append(f"This command's version of what others changed is kept in {aside}.")
    lines.append(f"What was dropped is as it was before. {format_advice([f.code for f in findings])}")
    return "\n".join(lines)


def format_advice(codes: Collection[ErrorType]) -> str:
    """Return the next steps for these codes. A wider scope repairs no broken constraint and no dropped git change."""
    return " ".join(words for code, words in ADVICE_BY_CODE.items() if code in codes) or DEFAULT_ADVICE


def describe_protected_places(text: str, names: Iterable[str]) -> str:
    """Name the read-only places that occur in the command's text; "" for none."""
    named = [name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)]
    if not named:
        return ""
    return f"Remit [PROTECTED_PATH]: {', '.join(named)} was read-only for this command, because it governs agents."


REMOTE_COMMAND = re.compile(r"\b(ssh|scp|sftp|rsync|git\b.*\b(push|fetch|pull|clone|ls-remote|submodule))\b", re.DOTALL)


def describe_missing_ssh_agent(text: str) -> str:
    """Explain the missing ssh-agent if the text mentions a remote command; "" for any other text."""
    if not REMOTE_COMMAND.search(text):
        return ""
    return (
        "Remit: this command had no ssh-agent. If the command failed for that reason, tell the person: `ssh_agent = "
        "true` under [containment] in .orchestration/remit.toml lets commands use theirs."
    )


def describe_unreachable_processes(text: str, programs: Collection[str]) -> str:
    """Explain that earlier background processes are invisible; "" if the text kills no foreign process."""
    if {"kill", "pkill", "killall", "fuser"}.isdisjoint(programs) or LONE_AMPERSAND.search(text):
        return ""
    return (
        "Remit: the command ran contained, where only its own processes are seen. It ended none of an earlier "
        "command's processes: stop those with your shell tool's function for background processes, or ask the person."
    )


COMMITTING_COMMAND = re.compile(r"\bgit\b.*\b(commit|merge|pull|rebase|tag)\b", re.DOTALL)
SIGNING_COMMAND = re.compile(r"\bgit\b.*(\s-S|--gpg-sign|\btag\b.*\s-s)", re.DOTALL)


def describe_missing_signature(text: str, *, signs: bool) -> str:
    """Explain the missing gpg-agent; "" if neither the text nor the settings (`signs`) sign."""
    if not SIGNING_COMMAND.search(text) and not (signs and COMMITTING_COMMAND.search(text)):
        return ""
    return (
        "Remit: no contained command reaches the gpg-agent. If signing failed, leave the commit to the "
        "person, or ask them whether it may stay unsigned (`--no-gpg-sign`). Signing by SSH works with "
        "`ssh_agent = true` under [containment] in .orchestration/remit.toml."
    )


def describe_ended_background(text: str) -> str:
    """Explain that background processes ended with the command; "" if the text starts none."""
    if not leaves_process_running(text):
        return ""
    return (
        "Remit: the command ran contained, and what it left running in the background was ended with it. Start such a "
        "program with your shell tool's function for background processes, or use it and end it in one command."
    )


def format_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each finding; one line for a folder with many out-of-scope files."""
    folders = Counter(top_folder(f) for f in findings if f.code == "SCOPE_VIOLATION")
    full = {name for name, count in folders.items() if name and count > MAX_FOLDER_FINDINGS}
    for name in sorted(full):
        yield (
            f"  {sanitise_line(name, 200)}/: {folders[name]} files, outside the scope. Generated files are kept if a "
            "committed .gitignore ignores them, or if a person adds the folder to the scope."
        )
    for finding in findings:
        if finding.code != "SCOPE_VIOLATION" or top_folder(finding) not in full:
            yield f"  {sanitise_line(finding.path or '', 200)}: {finding.message}"


def top_folder(finding: Finding) -> str:
    """Return the top-level folder of a finding's path; "" for a file in the root."""
    first, inside, _ = (finding.path or "").partition("/")
    return first if inside else ""
