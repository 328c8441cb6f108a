"""The first words of a command that a wider grant may cover, such as `git log` of `cd src && git log -3`.

Such a grant covers commands unseen by any person. Remit offers the grant only for words with a clear effect: never for
programs with free commands as arguments, and never across a pipe, a redirection or a substitution.
"""

from typing import TYPE_CHECKING

from remit.policy.commands.interpret.prove import literal_simple_command
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.syntax_tree import parse_tree
from remit.policy.commands.parse.words import UnprovedCommand, node_source

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_CHARS = 4096
"""Characters of a command; a longer one can be approved only once."""

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
    "yarn": word_set("run exec dlx workspace"),
    "uv": word_set("run tool"),
    **dict.fromkeys(("poetry", "pdm", "pipenv", "hatch", "rye", "conda"), word_set("run")),
    "cargo": word_set("run"),
    "bundle": word_set("exec"),
    "docker": word_set("compose"),
    "python": word_set("-m"),
    "python3": word_set("-m"),
}
"""Programs with a clear effect by three words: the second word only runs the third."""

NEVER_PREFIXES = frozenset(
    {("docker", "run"), ("docker", "exec"), ("podman", "run"), ("podman", "exec"), ("kubectl", "exec")}
)
"""Commands that run whatever their arguments say."""


def propose_prefix(command: str) -> tuple[str, ...]:
    """Return the words of a wider grant for this command; empty if only single approvals are possible."""
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
            node = command_after_cd(node, loose=loose)
        if node is None:
            return None
        return literal_simple_command(strip_assignments(node) if loose else node_source(node))
    except (UnprovedCommand, UnicodeEncodeError):
        return None


def command_after_cd(node: "Node", *, loose: bool) -> "Node | None":
    """Return the command after `cd FOLDER &&`; None for other lists."""
    if [child.type for child in node.children][1:] != ["&&", "command"]:
        return None
    cd = literal_simple_command(node_source(node.children[0]))
    if cd is None or len(cd) != 2 or cd[0] != "cd":
        return None
    inside = not cd[1].startswith(("/", "~", "-")) and ".." not in cd[1].split("/")
    return node.children[2] if loose or inside else None


def strip_assignments(node: "Node") -> str:
    """Return the text of a command from its name on."""
    text = node.text or b""
    name = next((child for child in node.children if child.type == "command_name"), None)
    beside = [child for child in node.children if child.type not in ("variable_assignment",)]
    if name is None or beside[0] != name:
        return node_source(node)
    return text[name.start_byte - node.start_byte :].decode()
