"""The first words of a command that a wider yes may cover, such as `git log` of `cd src && git log -3`.

A yes that goes further than one call covers commands that nobody has seen yet. So it is offered only where the words
say what is done: never for programs that run whatever they are told to, and never across a pipe, a redirection or a
substitution.
"""

from typing import TYPE_CHECKING

from remit.policy.commands.options import names
from remit.policy.commands.proof import simple_command
from remit.policy.commands.syntax import parse
from remit.policy.commands.words import Refused, source

if TYPE_CHECKING:
    from tree_sitter import Node

LONGEST = 4096
"""Characters; a longer command is seen once at most."""

ANYTHING = names(
    "sh bash dash zsh fish ksh csh tcsh pwsh cmd sudo doas su env xargs find eval exec command builtin source . time "
    "nohup nice ionice timeout setsid stdbuf watch parallel flock script ssh perl ruby php lua tclsh osascript awk "
    "gawk mawk sed node nodejs deno bun python python2 python3 rm rmdir shred unlink dd truncate chmod chown "
    "kill pkill killall mv ln tee install remit"
)
"""They run what they are told to, or their harm lies in their arguments: only `python -m MODULE` says enough."""

MULTI = names(
    "git cargo go npm yarn pnpm npx pnpx bunx uvx pipx make gmake just task docker podman gh glab kubectl helm "
    "terraform pip pip3 uv poetry pdm hatch conda brew apt apt-get dnf systemctl rustup dotnet gradle mvn bundle rake "
    "rails mix aws gcloud az hg svn jj django-admin"
)
"""Two words say what they do."""

LAUNCHERS = {
    **dict.fromkeys(("npm", "pnpm"), names("run run-script exec x dlx")),
    "yarn": names("run exec dlx workspace"),
    "uv": names("run tool"),
    **dict.fromkeys(("poetry", "pdm", "pipenv", "hatch", "rye", "conda"), names("run")),
    "cargo": names("run"),
    "bundle": names("exec"),
    "docker": names("compose"),
    "python": names("-m"),
    "python3": names("-m"),
}
"""Three words: the second only says that something is run."""

NEVER = frozenset({("docker", "run"), ("docker", "exec"), ("podman", "run"), ("podman", "exec"), ("kubectl", "exec")})
"""They run whatever their arguments say, wherever they say."""


def proposed_prefix(command: str) -> tuple[str, ...]:
    """The words that a wider yes to this command would cover; none where it can be allowed only once."""
    found = words_of(command, loose=True)
    return prefix(found) if found else ()


def covers_command(words: tuple[str, ...], command: str) -> bool:
    """Whether a yes to `words …` covers this command.

    Variables before a command are no part of what a person said yes to: `PAGER=x git log` is another command.
    """
    found = words_of(command, loose=False)
    return bool(words) and found is not None and found[: len(words)] == words


def prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    """The least words of a command that say what it does; none where no number of them does."""
    name, second = words[0], words[1] if len(words) > 1 else ""
    launches = second in LAUNCHERS.get(name, frozenset())
    if "/" in name or (name in ANYTHING and not launches) or words[:2] in NEVER:
        return ()
    size = 3 if launches else 2 if name in MULTI else 1
    said = words[:size]
    if len(said) < size:
        return ()
    last = words[size - 1]
    vague = not last or last.startswith("-") or last in ANYTHING or "=" in last
    return () if vague and size > 1 else said


def words_of(command: str, *, loose: bool) -> tuple[str, ...] | None:
    """The literal words of the only command, after `cd FOLDER &&`; None where there is more to it.

    `loose` also passes over `NAME=value` before it, and over a folder that lies elsewhere.
    """
    if len(command) > LONGEST or not command.isprintable():
        return None
    try:
        root = parse(command)
        node = root.children[0] if root.child_count == 1 else None
        if node is not None and node.type == "list":
            node = after_cd(node, loose=loose)
        return simple_command(without_variables(node) if loose else source(node)) if node is not None else None
    except (Refused, UnicodeEncodeError):
        return None


def after_cd(node: "Node", *, loose: bool) -> "Node | None":
    """The command after `cd FOLDER &&`; None where the list is another."""
    if [child.type for child in node.children][1:] != ["&&", "command"]:
        return None
    went = simple_command(source(node.children[0]))
    if went is None or len(went) != 2 or went[0] != "cd":
        return None
    inside = not went[1].startswith(("/", "~", "-")) and ".." not in went[1].split("/")
    return node.children[2] if loose or inside else None


def without_variables(node: "Node") -> str:
    """The text of a command from its name on."""
    text = node.text or b""
    name = next((child for child in node.children if child.type == "command_name"), None)
    beside = [child for child in node.children if child.type not in ("variable_assignment",)]
    if name is None or beside[0] != name:
        return source(node)
    return text[name.start_byte - node.start_byte :].decode()
