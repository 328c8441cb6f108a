"""Secret places of a call: what no jail shows, and what Remit's own agent reads only with a person's yes."""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Target
from remit.core.diff.contents import sha256
from remit.gate.context import WorkspaceContext
from remit.gate.governing.workspaces import HOME_PREFIX
from remit.gate.state.database import StateDatabase
from remit.workspace.sandbox.secret_places import SecretPlaces, SecretSearch, find_secret_places, is_inside

EXPANDED = re.compile(r"[*?\[{$`]")
"""Where a word begins to stand for others: only what is before it is known."""


def list_shown_places(context: WorkspaceContext) -> tuple[Path, ...]:
    settings, home = context.rules.config.containment, context.environment.home
    if not context.are_trusted(settings.show_items):
        return ()
    return tuple(home / place.removeprefix("~/") for place in settings.show)


def find_secrets(context: WorkspaceContext, shown: Sequence[Path] = (), *, ssh_agent: bool = False) -> SecretPlaces:
    """Return the secret places closed to commands of this workspace. Raises OSError, GitError."""
    environment, workspace = context.environment, context.workspace
    search = SecretSearch(
        environment.home,
        environment.settings_variables,
        tuple(environment.config_folders.values()),
        root=workspace.root,
        kept=(workspace.root, *filter(None, (workspace.common_dir, workspace.git_dir))),
        shown=(*list_shown_places(context), *shown),
        ssh_agent=ssh_agent,
    )
    return find_secret_places(search, workspace)


def mark_secrets(
    context: WorkspaceContext, call: ToolCall, targets: tuple[Target, ...]
) -> tuple[ToolCall, tuple[Target, ...]]:
    """Mark the targets in secret places; and as unproved a command that names one, or a folder above: contained it
    finds nothing there. Raises OSError, GitError, StateError.
    """
    secrets = find_secrets(context)
    hidden, visible = [*map(str, secrets.paths)], [*map(str, secrets.visible)]

    def is_secret(real: str, *, deep: bool) -> bool:
        if any(is_inside(real, place) for place in visible):
            return False
        return any(is_inside(real, place) or (deep and is_inside(place, real.rstrip("/"))) for place in hidden)

    if call.command is not None and call.unproved is None and hidden:
        places = list_read_places(call.command, call.cwd, str(context.environment.home))
        if any(is_secret(place, deep=True) for place in places):
            call = replace(call, unproved="it may read what is secret")
    # A search goes into folders; a list of names tells no secret.
    deep = call.effect == "read" and call.tool != "list_files"
    return call, tuple(
        replace(target, secret=True)
        if is_secret(target.resolved, deep=deep) and not (call.effect == "read" and was_shown(context, call, target))
        else target
        for target in targets
    )


def list_read_places(command: str, cwd: str, home: str) -> Iterator[str]:
    yield os.path.realpath(cwd)
    for word in split_words(command):
        for text in dict.fromkeys((word, word.rpartition("=")[2])):
            expanded = HOME_PREFIX.sub(lambda _: home, text)
            if expanded.startswith("~"):
                yield "/"
            known = EXPANDED.split(expanded, maxsplit=1)[0]
            known = known if known == expanded else known.rpartition("/")[0] or ("/" if known.startswith("/") else ".")
            yield os.path.realpath(os.path.join(cwd, known))  # noqa: PTH118  a Path would tidy `..` away


def split_words(command: str) -> Iterator[str]:
    """Yield the words as the shell reads them, and those of a script in quotes."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words = list(lexer)
    except ValueError:
        words = ["/"]
    for word in words:
        yield word
        if word != command and (" " in word or "\n" in word):
            yield from split_words(word)


def name_of_shown(session: SessionKey, target: Target) -> str:
    return f"secret shown {sha256(repr((session.session_id, target.resolved)).encode('utf-8', 'surrogatepass'))}"


def was_shown(context: WorkspaceContext, call: ToolCall, target: Target) -> bool:
    return context.state.read_fact(name_of_shown(call.session, target)) is not None


def note_shown(state: StateDatabase, session: SessionKey, targets: Sequence[Target]) -> None:
    """Note that a person let a session read these places: it is asked about each once. Raises StateError."""
    for target in targets:
        if target.secret:
            state.put_fact(name_of_shown(session, target), "1")
