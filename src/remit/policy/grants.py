"""Grants: the reach of a person's approval, and the limit of the reach.

A grant for the first words of a command, such as `git log` of `cd src && git log -3`, covers commands unseen by any
person. Remit offers it only for words with a clear effect: never for programs with free commands as arguments, and
never across a pipe, a redirection or a substitution.
"""

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.decision import (
    HIGH_RISK,
    UNWAIVABLE_CODES,
    Extent,
    Facts,
    Finding,
    Grant,
    applies_to_session,
    suggest_pattern,
)
from remit.core.scope.path_patterns import Scope, glob_error, is_absolute_pattern
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands.parsed_command import parse_tree
from remit.policy.commands.statements import literal_simple_command
from remit.policy.commands.words import UnprovedCommand, node_source, word_set
from remit.policy.risk import target_paths, weigh_command

if TYPE_CHECKING:
    pass


MAX_CHARS = 4096  # Characters of a command; a longer one can be approved only once

UNSPECIFIC_PROGRAMS = word_set(
    "sh bash dash zsh fish ksh csh tcsh pwsh cmd sudo doas su env xargs find eval exec command builtin source . time "
    "nohup nice ionice timeout setsid stdbuf watch parallel flock script ssh perl ruby php lua tclsh osascript awk "
    "gawk mawk sed node nodejs deno bun python python2 python3 rm rmdir shred unlink dd truncate chmod chown "
    "kill pkill killall mv ln tee install remit"
)
"""Programs with free commands as arguments, or with harm in the arguments, except `python -m MODULE`."""

TWO_WORD_PROGRAMS = word_set(
    "git cargo go npm yarn pnpm npx pnpx bunx uvx pipx make gmake just task docker podman gh glab kubectl helm "
    "terraform pip pip3 uv poetry pdm hatch conda brew apt apt-get dnf systemctl rustup dotnet gradle mvn bundle rake "
    "rails mix aws gcloud az hg svn jj django-admin"
)
"""Programs with a clear effect by two words."""

THREE_WORD_PROGRAMS = {
    **dict.fromkeys(("npm", "pnpm"), word_set("run run-script exec x dlx")),
    **dict.fromkeys(("poetry", "pdm", "pipenv", "hatch", "rye", "conda", "cargo"), word_set("run")),
    **dict.fromkeys(("python", "python3"), word_set("-m")),
    "yarn": word_set("run exec dlx workspace"),
    "uv": word_set("run tool"),
    "bundle": word_set("exec"),
    "docker": word_set("compose"),
}
"""Programs with a clear effect by three words: the second word only runs the third."""

# Commands that run whatever their arguments say
NEVER_PREFIXES = {("docker", "run"), ("docker", "exec"), ("podman", "run"), ("podman", "exec"), ("kubectl", "exec")}


def propose_prefix(command: str) -> tuple[str, ...]:
    found = literal_words(command, loose=True)
    return specific_prefix(found) if found else ()


def covers_command(words: tuple[str, ...], command: str) -> bool:
    """Return True if a grant for `words …` covers this command.

    Variables before a command make another command: a grant for `git log` does not cover `PAGER=x git log`.
    """
    found = literal_words(command, loose=False)
    return bool(words) and found is not None and found[: len(words)] == words


def specific_prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fewest words with a clear effect; empty if there are none."""
    name, second = words[0], words[1] if len(words) > 1 else ""
    launches = second in THREE_WORD_PROGRAMS.get(name, frozenset())
    if "/" in name or (name in UNSPECIFIC_PROGRAMS and not launches) or words[:2] in NEVER_PREFIXES:
        return ()
    size = 3 if launches else 2 if name in TWO_WORD_PROGRAMS else 1
    if len(words) < size:
        return ()
    last = words[size - 1]
    vague = not last or last.startswith("-") or last in UNSPECIFIC_PROGRAMS or "=" in last
    return () if vague and size > 1 else words[:size]


def literal_words(command: str, *, loose: bool) -> tuple[str, ...] | None:
    """Return the literal words of a single command, perhaps after `cd FOLDER &&`; None for other texts.

    `loose` also allows `NAME=value` before the command, and a folder outside the present one.
    """
    if len(command) > MAX_CHARS or not command.isprintable():
        return None
    try:
        root = parse_tree(command)
        node = root.children[0] if root.child_count == 1 else None
        if node is not None and node.type == "list":
            cd = literal_simple_command(node_source(node.children[0]))
            if [child.type for child in node.children][1:] != ["&&", "command"] or not cd or cd[0] != "cd":
                return None
            inside = len(cd) == 2 and not cd[1].startswith(("/", "~", "-")) and ".." not in cd[1].split("/")
            node = node.children[2] if len(cd) == 2 and (loose or inside) else None
        if node is None:
            return None
        text = node_source(node)
        parts = [child for child in node.children if child.type != "variable_assignment"]
        if loose and parts and parts[0].type == "command_name":
            text = (node.text or b"")[parts[0].start_byte - node.start_byte :].decode()
        return literal_simple_command(text)
    except (UnprovedCommand, UnicodeEncodeError):
        return None


class GrantRuleError(ValueError):
    """A grant beyond the limits. The message names the limit."""


class GrantSubject(Struct, frozen=True):
    """The subject of a question. A wider grant may cover `path` or `prefix`; without both, the tool.

    `command` is the command in question, if known: the rule must cover the command.
    """

    tool: str
    risk: int
    path: str | None = None
    prefix: tuple[str, ...] = ()
    is_command: bool = False
    command: str = ""


class GrantRule(Struct, frozen=True):
    """The extent of a grant."""

    pattern: str | None = None
    command: tuple[str, ...] = ()
    tool: str | None = None

    @property
    def text(self) -> str:
        return self.pattern or " ".join(self.command) or self.tool or ""


def covers_finding(grant: Grant, finding: Finding, call: ToolCall, facts: Facts) -> bool:
    """Return True if the grant waives this finding: same code, all paths or the command, same holder.

    A person may have written the grant by hand: a grant beyond the limits covers no finding.
    """
    if grant.code != finding.code or not applies_to_session(grant, call.session.session_id, facts.session.intent_id):
        return False
    if finding.code in UNWAIVABLE_CODES or (finding.code == "COMMAND_BLOCKED" and finding.verdict == "deny"):
        return False
    if call.command is not None and sum(part.weight for part in weigh_command(call.command)) > HIGH_RISK:
        return False
    named: Iterable[object] = finding.context.get("paths", [finding.path] if finding.path else [])
    about = tuple(map(str, named)) or (() if call.command is not None else target_paths(facts))
    if about:
        return grant.pattern is not None and all(Scope((grant.pattern,)).matches(path) for path in about)
    if call.command is not None:
        return bool(grant.command and specific_prefix(grant.command)) and covers_command(grant.command, call.command)
    return grant.tool is not None and grant.tool == call.tool


def make_rule(subject: GrantSubject, extent: Extent, given: str | None = None) -> GrantRule:
    """Return the rule of a grant, as proposed or as a person wrote it. Raises GrantRuleError."""
    if extent == "once":
        return GrantRule(pattern=given or suggest_pattern(subject.path, extent))
    if subject.risk > HIGH_RISK:
        raise GrantRuleError(f"its risk is {subject.risk} of 100: above {HIGH_RISK}, a yes is for this once")
    if subject.path is None:
        return (
            GrantRule(command=make_command_rule(subject, given)) if subject.is_command else GrantRule(tool=subject.tool)
        )
    pattern = given or suggest_pattern(subject.path, extent) or subject.path
    absolute = "it is absolute; patterns start at the workspace root" if is_absolute_pattern(pattern) else None
    if wrong := absolute or glob_error(pattern):
        raise GrantRuleError(f"{pattern!r} is not a pattern: {wrong}")
    if not Scope((pattern,)).matches(subject.path):
        raise GrantRuleError(f"{pattern!r} does not cover {subject.path!r}, which is what was asked")
    return GrantRule(pattern=pattern)


def make_command_rule(subject: GrantSubject, given: str | None) -> tuple[str, ...]:
    """Return the first words of the covered commands. Raises GrantRuleError."""
    if not subject.prefix:
        raise GrantRuleError(
            "no words of this command say enough (a shell, a pipe, a program that runs others …), so a yes is for once"
        )
    if given is None:
        return subject.prefix
    try:
        words = tuple(shlex.split(given))
    except ValueError as error:
        raise GrantRuleError(f"{given!r} cannot be cut into words: {error}") from error
    if words[: len(subject.prefix)] != subject.prefix or not specific_prefix(words):
        raise GrantRuleError(f"{given!r} has to begin with {' '.join(subject.prefix)!r}")
    asked = literal_words(subject.command, loose=True)
    if asked is not None and asked[: len(words)] != words:
        shown = sanitise_line(subject.command, 200)
        raise GrantRuleError(f"{given!r} does not cover {shown!r}, which is what was asked")
    return words
