"""Patches applied by shell commands: `apply_patch <<'EOF'` … `EOF`, also after `cd FOLDER &&`.

A command that hides its patch or its folder raises PatchError: the call is denied.
"""

import posixpath
import re

from msgspec import Struct

from remit.core.diff.patch import FileOperation, Patch, PatchError, parse_patch
from remit.core.shell.simple_commands import (
    HereDocument,
    ShellWord,
    SimpleCommand,
    UnreadableShell,
    parse_simple_commands,
)

APPLY_PROGRAMS = frozenset({"apply_patch", "applypatch"})
PROGRAM_MENTION = re.compile(r"apply_?patch")
STARTER_PROGRAM = re.compile(
    r"(?:ba|da|z|k|a|fi)?sh|eval|exec|env|xargs|parallel|sudo|doas|su|nohup|timeout|time|nice|stdbuf|script|setsid"
    r"|command|builtin|source|\.|find|ssh|watch|python[\d.]*|perl|ruby|node|awk|trap|alias"
)
EXPANDED_CHARS = re.compile(r"[$`\\]")
CHANGES_FOLDER = frozenset({"pushd", "popd"})
CD_OPERATORS = ("", "&&", ";", "\n")


class CommandPatch(Struct, frozen=True):
    """A patch applied by a shell command in `folder`, relative to the command's working folder; empty for the folder
    itself.
    """

    folder: str
    patch: Patch

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files relative to the command's working folder."""
        return tuple(posixpath.join(self.folder, path) for path in self.patch.paths)

    @property
    def operations(self) -> tuple[FileOperation, ...]:
        """Return the operations relative to the command's working folder."""
        to = posixpath.join
        return tuple(
            FileOperation(o.kind, to(self.folder, o.path), o.moved_to and to(self.folder, o.moved_to), o.hunks)
            for o in self.patch.operations
        )


def find_shell_patches(command: str) -> tuple[CommandPatch, ...]:
    """Return the patches applied by a shell command: `apply_patch <<'EOF'` or `apply_patch '…'`, also after `cd x &&`.

    Raises PatchError if the command applies a patch, or changes to a folder, that its text does not show.
    """
    if PROGRAM_MENTION.search(command) is None:
        return ()
    try:
        commands = parse_simple_commands(command)
    except UnreadableShell as error:
        raise PatchError(f"the command around it cannot be read: {error}") from error
    hidden = next((c for c in commands if may_hide_patch(c)), None)
    if hidden is not None:
        raise PatchError(f"it is started by {hidden.words[0].text[:80]!r}; run apply_patch <<'EOF' … EOF itself")
    patches = tuple(read_shell_patch(commands, n) for n, c in enumerate(commands) if runs_apply_patch(c))
    if "\\" in command.partition("<<")[0] and any(patch.folder for patch in patches):
        raise PatchError("the folder holds a backslash, which Codex keeps and a shell takes out")
    return patches


def program_name(command: SimpleCommand) -> str:
    """Return the base name of the program, skipping assignments and reserved words."""
    words = program_words(command)
    return words[0].text.rpartition("/")[2] if words else ""


RESERVED_WORDS = frozenset({"{", "}", "!", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def program_words(command: SimpleCommand) -> tuple[ShellWord, ...]:
    words = command.words
    while words and (words[0].text in RESERVED_WORDS or ASSIGNMENT.match(words[0].text)):
        words = words[1:]
    return words


def runs_apply_patch(command: SimpleCommand) -> bool:
    return program_name(command) in APPLY_PROGRAMS


def may_hide_patch(command: SimpleCommand) -> bool:
    if runs_apply_patch(command) or not STARTER_PROGRAM.fullmatch(program_name(command)):
        return False
    texts = (*(word.text for word in command.words), *(document.body for document in command.documents))
    return any(PROGRAM_MENTION.search(text) for text in texts)


def read_shell_patch(commands: tuple[SimpleCommand, ...], n: int) -> CommandPatch:
    patch = parse_patch(find_patch_text(commands[n]))
    if all(posixpath.isabs(path) for path in patch.paths):
        return CommandPatch("", patch)
    return CommandPatch(find_folder(commands, n), patch)


def find_patch_text(command: SimpleCommand) -> str:
    """Return the text passed to apply_patch: its here-document, or its only argument."""
    arguments = program_words(command)[1:]
    documents = command.documents
    if len(documents) == 1 and not arguments:
        return literal_body(documents[0])
    if len(arguments) == 1 and arguments[0].literal and not command.fed:
        return arguments[0].text
    raise PatchError("the command does not show it; expected apply_patch <<'EOF' … EOF")


def literal_body(document: HereDocument) -> str:
    """Return the body of a here-document that the shell passes unchanged."""
    if not document.closed:
        raise PatchError("its here-document is not closed")
    if not document.quoted and EXPANDED_CHARS.search(document.body):
        raise PatchError("the shell would change its text; quote the delimiter: <<'EOF'")
    return document.body


def find_folder(commands: tuple[SimpleCommand, ...], n: int) -> str:
    """Return the working folder of command `n`: each earlier `cd` must be plain and joined by `&&`."""
    folder, sure = "", True
    for command in commands[: n + 1]:
        sure = sure and command.before in (("&&",) if folder else CD_OPERATORS)
        if program_name(command) in CHANGES_FOLDER:
            raise PatchError("the folder it is applied in is not known; use absolute paths")
        if program_name(command) == "cd":
            sure = command.before in CD_OPERATORS if not folder else sure
            folder = posixpath.join(folder, read_cd_folder(command))
        if folder and (not sure or command.depth):
            raise PatchError("the folder it is applied in is not sure; write cd FOLDER && apply_patch, nothing between")
    return folder


def read_cd_folder(command: SimpleCommand) -> str:
    words = program_words(command)[1:]
    if len(words) != 1 or not words[0].literal or words[0].text.startswith("-") or not words[0].text:
        raise PatchError("the folder that cd names is not plain")
    return words[0].text
