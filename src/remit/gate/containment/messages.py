"""Findings of containment's own, and the messages about a contained command."""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from remit.core.bounds import PATH_BYTES, PATH_DEPTH
from remit.core.decision import ErrorType, Finding
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands.background_and_input import LONE_AMPERSAND, leaves_process_running
from remit.workspace.sandbox.containment import CommandEnd
from remit.workspace.sandbox.secret_places import SecretPlaces

OTHER_VERSION_ADVICE = "git was to bring another version of it: ask the person to run this command"

PATH_REASONS: Mapping[str, tuple[ErrorType, str]] = {
    "changed meanwhile": ("STALE_FILE", "was changed by somebody else while the command ran"),
    "deleted meanwhile": ("STALE_FILE", "was taken away by somebody else while the command ran"),
    "not written": ("STALE_FILE", "could not be written: {why}"),
    "link in use": (
        "STALE_FILE",
        "is as it was: the link {link} lies on the way to a file that another call is writing: make it again "
        "afterwards",
    ),
    "escaping link": (
        "OUTSIDE_WORKSPACE",
        "is a link that leads out of the workspace, made while another call runs: make it again afterwards",
    ),
    "too deep": (
        "COMMAND_BLOCKED",
        f"lies more than {PATH_DEPTH.value} folders deep, or at a path of more than {PATH_BYTES.value} bytes",
    ),
    "odd name": ("COMMAND_BLOCKED", "has a name with characters that a terminal obeys or hides: give it a plain one"),
    "special file": ("COMMAND_BLOCKED", "is a {kind}, which is never brought over"),
    "too large": ("COMMAND_BLOCKED", "is larger than 4 GiB, and nothing that large is kept"),
    "new work tree": (
        "COMMAND_BLOCKED",
        "is a work tree of its own, which no contained command makes: run `git worktree add` alone, or ask the person",
    ),
    "stripped privileges": (
        "COMMAND_BLOCKED",
        "was kept without its set-user-ID, set-group-ID or sticky bit: only a person gives one",
    ),
    "unmerged": ("SCOPE_VIOLATION", "is in conflict, and lies outside the scope: a person has to merge it"),
    "waiting patch": (
        "SCOPE_VIOLATION",
        "lies outside the scope, and a patch that `git am` still has to apply changes it: a person has to apply it",
    ),
    "staged by a person": (
        "SCOPE_VIOLATION",
        "is in the index as before: it lies outside the scope, and a person staged it. Name your own files, as in "
        "`git add src` or `git stash push -- src`",
    ),
    "governing file behind HEAD": ("PROTECTED_PATH", f"governs agents, and {OTHER_VERSION_ADVICE}"),
    "behind HEAD": (
        "SCOPE_VIOLATION",
        "would be left as a change that nobody made: HEAD moved to another version of it, and the file did not. Use "
        "`git switch`, `git merge` or `git pull`",
    ),
    "half brought": (
        "PROTECTED_PATH",
        "is as before: git stopped half-way, so none of its changes stay. If it met a read-only file, the file governs "
        f"agents, and {OTHER_VERSION_ADVICE}",
    ),
    "dropped with git": ("PROTECTED_PATH", "is as before: what git did with it was dropped"),
}
"""Code and reason of each finding about a file; the reason follows the path."""


def path_finding(reason: str, path: str, **values: str) -> Finding:
    code, why = PATH_REASONS[reason]
    return make_finding(code, path, f"{sanitise_line(path)} {why.format(**values)}.")


def make_finding(code: ErrorType, path: str, message: str) -> Finding:
    return Finding(rule="contained", code=code, message=message, path=path)


# -- git ----------------------------------------------------------------------------------------------------


GIT_PART_DROPPED = "what it did to git's own folder was dropped: "


def git_part_dropped(folder: str, why: str) -> Finding:
    return make_finding("PROTECTED_PATH", folder, f"{GIT_PART_DROPPED}{why}.")


def repository_dropped(first: Finding, tree: str) -> Finding:
    """Return the finding about a repository dropped as a whole; `first` is the finding with the reason."""
    why = first.message.removeprefix(GIT_PART_DROPPED)
    shown = sanitise_line(tree)
    return make_finding(
        first.code, tree, f"{shown}/ is a repository of its own, which comes over whole or not at all: {why}"
    )


def refused_settings(path: str, keys: Sequence[str]) -> Finding:
    few = ", ".join(sanitise_line(key, 80) for key in keys[:5]) + (", …" if len(keys) > 5 else "")
    return make_finding("PROTECTED_PATH", path, f"these settings are as before: {few}. A person sets them.")


def foreign_content(found: Finding, path: str, commit: str, content: str) -> Finding:
    holder = f"commit {commit[:12]}" if commit else "the index"
    said = f"holds a {sanitise_line(path)} that is not the one in the working tree" if content else "takes it away"
    message = f"{holder} {said}: {found.message}"
    return make_finding(found.code, path, message)


# -- the whole result ---------------------------------------------------------------------------------------

ADVICE_BY_CODE: Mapping[ErrorType, str] = {
    "SCOPE_VIOLATION": "Stay in the scope, or ask the person to widen it.",
    "CONSTRAINT_VIOLATION": "Do it again so that the constraint holds, or ask the person for another one.",
    "STALE_FILE": "Read files changed by others again before you continue.",
}
"""Next steps by code. A wider scope repairs no broken constraint and no dropped git change."""

DEFAULT_ADVICE = "If the work needs such a change, ask the person."

MAX_NAMED_FINDINGS = 20
MAX_FOLDER_FINDINGS = 5


def describe_result(ended: CommandEnd, kept: Sequence[str], findings: Sequence[Finding], aside: Path) -> str:
    """Return the message about a command's result; "" if every change was kept."""
    lines = [f"Remit: the command was stopped: {ended.stop_text}."] if ended.stop_text else []
    if not findings:
        return "\n".join(lines)
    codes = dict.fromkeys(f.code for f in findings)
    lines.append(f"Remit [{', '.join(codes)}]: the command ran contained. Files kept: {len(kept)}; dropped:")
    # One line for a folder with many out-of-scope files; a file in the root has no folder.
    outside = [f.path or "" for f in findings if f.code == "SCOPE_VIOLATION"]
    counts = Counter(path.partition("/")[0] for path in outside if "/" in path)
    full = sorted(name for name, count in counts.items() if count > MAX_FOLDER_FINDINGS)
    summed = {path for path in outside if "/" in path and path.partition("/")[0] in full}
    details = [
        f"  {sanitise_line(name, 200)}/: {counts[name]} files, outside the scope. Generated files are kept if a "
        "committed .gitignore ignores them, or if a person adds the folder to the scope."
        for name in full
    ]
    details += join_protected([f for f in findings if f.code != "SCOPE_VIOLATION" or f.path not in summed])
    lines += details[:MAX_NAMED_FINDINGS]
    if len(details) > MAX_NAMED_FINDINGS:
        lines.append(f"  … and {len(details) - MAX_NAMED_FINDINGS} more")
    if "STALE_FILE" in codes:
        lines.append(f"This command's version of what others changed is kept in {aside}.")
    advice = " ".join(words for code, words in ADVICE_BY_CODE.items() if code in codes) or DEFAULT_ADVICE
    lines.append(f"What was dropped is as it was before. {advice}")
    return "\n".join(lines)


def join_protected(findings: Sequence[Finding]) -> list[str]:
    groups: dict[tuple[str, str], list[Finding]] = {}
    for found in findings:
        path = found.path or ""
        reason = found.message.removeprefix(sanitise_line(path))
        parts = path.split("/")
        folder = "/".join(parts[: parts.index(".git") + 1] if ".git" in parts[:-1] else parts[:-1])
        is_joined = found.code == "PROTECTED_PATH" and folder and reason != found.message
        groups.setdefault((folder, reason) if is_joined else (path, found.message), []).append(found)
    return [
        f"  {sanitise_line(name, 200)}/: {len(group)} files, each{reason}"
        if len(group) > 1
        else f"  {sanitise_line(group[0].path or '', 200)}: {group[0].message}"
        for (name, reason), group in groups.items()
    ]


# -- what the sandbox denied ----------------------------------------------------------------------------------

REMOTE_COMMAND = re.compile(r"\b(ssh|scp|sftp|rsync|git\b.*\b(push|fetch|pull|clone|ls-remote|submodule))\b", re.DOTALL)
COMMITTING_COMMAND = re.compile(r"\bgit\b.*\b(commit|merge|pull|rebase|tag)\b", re.DOTALL)
SIGNING_COMMAND = re.compile(r"\bgit\b.*(\s-S|--gpg-sign|\btag\b.*\s-s)", re.DOTALL)


HOOK_INSTALLER = re.compile(
    r"\b(?:pre-commit|lefthook|overcommit|husky|simple-git-hooks|git[ -]lfs)\b[^|;&\n]*\binstall\b"
)
"""Programs that put hooks into git's folder."""


def describe_protected_places(text: str, names: Iterable[str]) -> str:
    named = [name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)]
    if HOOK_INSTALLER.search(text) and ".git/hooks" not in named:
        named.append(".git/hooks")
    if not named:
        return ""
    return f"Remit [PROTECTED_PATH]: {', '.join(named)} was read-only for this command, because it governs agents."


def describe_kept_work(snapshot: str) -> str:
    return (
        "Remit: this discarded work that git did not keep. Remit kept the working tree as it was before: a person gets "
        f"it back by `remit restore {snapshot}`."
    )


def describe_lost_submodules(trees: Sequence[str]) -> str:
    lines = (
        f"Remit: {sanitise_line(tree)} is a submodule whose git folder is gone, so git does not work in it. Ask the "
        f"person: without {sanitise_line(tree)}/.git, `git submodule update --init` clones it again."
        for tree in trees
    )
    return "\n".join(lines)


def describe_missing_ssh_agent(text: str) -> str:
    if not REMOTE_COMMAND.search(text):
        return ""
    return (
        "Remit: this command had no ssh-agent. If the command failed for that reason, tell the person: `ssh_agent = "
        "true` under [containment] in .orchestration/remit.toml lets commands use theirs."
    )


SECRETS_OF_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("ssh", "scp", "sftp", "rsync"), (".ssh",)),
    **dict.fromkeys(("aws", "sam", "cdk", "terraform", "tofu", "pulumi"), (".aws", ".terraform.d")),
    **dict.fromkeys(("gcloud", "gsutil", "bq"), (".config/gcloud",)),
    **dict.fromkeys(("kubectl", "helm", "kustomize", "k9s"), (".kube", ".docker")),
    **dict.fromkeys(("docker", "podman", "buildah", "skopeo"), (".docker", ".config/containers/auth.json")),
    **dict.fromkeys(("cargo",), (".cargo/credentials.toml", ".cargo/credentials")),
    **dict.fromkeys(("twine", "flit", "uv", "poetry", "hatch"), (".pypirc", ".netrc")),
    **dict.fromkeys(("curl", "wget", "pip", "pip3", "http"), (".netrc",)),
    **dict.fromkeys(("gpg", "gpg2"), (".gnupg/private-keys-v1.d",)),
    "gh": (".config/gh",),
    "glab": (".config/glab-cli",),
    "hub": (".config/hub",),
    "az": (".azure",),
    "rclone": (".config/rclone",),
    "pass": (".password-store",),
    "gem": (".gem/credentials",),
    "oci": (".oci",),
    "vault": (".vault-token",),
    "fly": (".fly",),
    "flyctl": (".fly",),
    "doctl": (".config/doctl",),
}
"""Secret places that a program would read, relative to HOME."""

SECRETS_OF_GIT = (
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".netrc",
    ".cache/git/credential",
    ".ssh",
)
SHOWN_EXAMPLES = {".ssh": ".ssh/id_ed25519", ".aws": ".aws/credentials", ".docker": ".docker/config.json"}
"""The file to show of a folder that holds more than one program needs."""


def describe_hidden_secrets(text: str, programs: Collection[str], home: Path, secrets: SecretPlaces) -> str:
    """Return the line about secret places that the command could have read, and the setting that shows them."""
    read = {name for program in programs for name in SECRETS_OF_PROGRAMS.get(program, ())}
    read |= set(SECRETS_OF_GIT) if REMOTE_COMMAND.search(text) and "git" in text else set()
    known = {Path(os.path.realpath(home / name)): name for name in sorted(read)}
    named = [path for path in secrets.paths if path in known or is_named(text, path, home)]
    if not named:
        return ""
    names = [known.get(path) or (str(path.relative_to(home)) if path.is_relative_to(home) else "") for path in named]
    shown = [f"~/{name}" if name else str(path) for name, path in zip(names, named, strict=True)]
    examples = [
        f"~/{SHOWN_EXAMPLES.get(name, name)}" if name else str(path) for name, path in zip(names, named, strict=True)
    ]
    setting = ", ".join(f'"{sanitise_line(each, 200)}"' for each in examples)
    return (
        f"Remit: contained commands do not see {sanitise_line(', '.join(shown), 400)}. If the command failed for that "
        f"reason, tell the person: `show = [{setting}]` under [containment] in .orchestration/remit.toml, and `remit "
        "trust`, lets commands see it."
    )


def is_named(text: str, path: Path, home: Path) -> bool:
    if not path.is_relative_to(home):
        return str(path) in text
    name = str(path.relative_to(home))
    return any(f"{start}/{name}" in text for start in ("~", "$HOME", "${HOME}", str(home)))


def describe_missing_signature(text: str, *, signs: bool) -> str:
    if not SIGNING_COMMAND.search(text) and not (signs and COMMITTING_COMMAND.search(text)):
        return ""
    return (
        "Remit: no contained command reaches the gpg-agent. If signing failed, leave the commit to the "
        "person, or ask them whether it may stay unsigned (`--no-gpg-sign`). Signing by SSH works with "
        "`ssh_agent = true` under [containment] in .orchestration/remit.toml."
    )


def describe_unreachable_processes(text: str, programs: Collection[str]) -> str:
    if {"kill", "pkill", "killall", "fuser"}.isdisjoint(programs) or LONE_AMPERSAND.search(text):
        return ""
    return (
        "Remit: the command ran contained, where only its own processes are seen. It ended none of an earlier "
        "command's processes: stop those with your shell tool's function for background processes, or ask the person."
    )


UNSEEN_THINGS: Mapping[str, str] = {
    **dict.fromkeys(
        ("ps", "pgrep", "pidof", "pstree", "top", "htop", "lsof", "fuser", "ss", "netstat"), "other processes"
    ),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), "the container engine"),
    **dict.fromkeys(("systemctl", "journalctl", "loginctl", "service"), "the machine's services"),
    **dict.fromkeys(("kubectl", "helm", "gh", "glab"), "your sign-in to other machines"),
}
"""What a program would look at, and cannot see from inside."""


def describe_unseen_things(programs: Collection[str]) -> str:
    """Return the line about programs that looked at the machine from inside, so that their answer may be wrong."""
    looked = [name for name in UNSEEN_THINGS if name in programs]
    if not looked:
        return ""
    unseen = " and ".join(dict.fromkeys(UNSEEN_THINGS[name] for name in looked))
    return (
        f"Remit: the command ran contained, where {', '.join(f'`{name}`' for name in looked)} cannot see {unseen}: the "
        "answer may be wrong. Run what only reads in a command of its own: that one runs as it is."
    )


def describe_ended_background(text: str) -> str:
    if not leaves_process_running(text):
        return ""
    return (
        "Remit: the command ran contained, and what it left running in the background was ended with it. Start such a "
        "program with your shell tool's function for background processes, or use it and end it in one command."
    )
