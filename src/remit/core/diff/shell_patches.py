"""V4A patches in shell commands: `apply_patch <<'EOF'` and `apply_patch '…'`.

Source: openai/codex, codex-rs/apply-patch/src/invocation.rs, read 2026-11.
"""

import posixpath
import re
from collections.abc import Iterable

from msgspec.structs import replace

from remit.core.diff.formats import Patch, PatchError, parse_patch
from remit.core.shell_commands import ShellWord, SimpleCommand, UnreadableShell, parse_simple_commands

APPLY_PROGRAMS = frozenset({"apply_patch", "applypatch"})
PROGRAM_MENTION = re.compile(r"apply_?patch")
STARTER_PROGRAM = re.compile(
    r"(?:ba|da|z|k|a|fi)?sh|eval|exec|env|xargs|parallel|sudo|doas|su|nohup|timeout|time|nice|stdbuf|script|setsid"
    r"|command|builtin|source|\.|find|ssh|watch|python[\d.]*|perl|ruby|node|awk|trap|alias"
)
EXPANDED_CHARS = re.compile(r"[$`\\]")
CHANGES_FOLDER = frozenset({"pushd", "popd"})
CD_OPERATORS = ("", "&&", ";", "\n")
RESERVED_WORDS = frozenset({"{", "}", "!", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time"})
ASSIGNMENT_START = re.compile(r"[A-Za-z_]\w*\+?=")


def find_shell_patches(command: str) -> tuple[Patch, ...]:
    """Return the patches applied by a shell command: `apply_patch <<'EOF'` or `apply_patch '…'`, also after `cd x &&`.

    Their paths are absolute, or relative to the command's working folder.

    Raises PatchError if the command applies a patch, or changes to a folder, that its text does not show.
    """
    if PROGRAM_MENTION.search(command) is None:
        return ()
    try:
        commands = parse_simple_commands(command)
    except UnreadableShell as error:
        raise PatchError(f"the command around it cannot be read: {error}") from error
    for each in commands:
        texts = (*(word.text for word in each.words), *(document.body for document in each.documents))
        starts = program_name(each) not in APPLY_PROGRAMS and STARTER_PROGRAM.fullmatch(program_name(each))
        if starts and any(PROGRAM_MENTION.search(text) for text in texts):
            raise PatchError(f"it is started by {each.words[0].text[:80]!r}; run apply_patch <<'EOF' … EOF itself")
    patches: list[Patch] = []
    for n, each in enumerate(commands):
        if program_name(each) in APPLY_PROGRAMS:
            patch = parse_patch(find_patch_text(each))
            is_absolute = all(posixpath.isabs(path) for path in patch.paths)
            folder = "" if is_absolute else find_folder(commands[: n + 1])
            if folder and "\\" in command.partition("<<")[0]:
                raise PatchError("the folder holds a backslash, which the agent keeps and a shell takes out")
            patches.append(move_patch(patch, folder))
    return tuple(patches)


def move_patch(patch: Patch, folder: str) -> Patch:
    """Return a patch with its paths below a folder."""
    moved = (
        replace(
            each,
            path=posixpath.join(folder, each.path),
            moved_to=each.moved_to and posixpath.join(folder, each.moved_to),
        )
        for each in patch.operations
    )
    return Patch(tuple(moved)) if folder else patch


def program_name(command: SimpleCommand) -> str:
    words = program_words(command)
    return words[0].text.rpartition("/")[2] if words else ""


def program_words(command: SimpleCommand) -> tuple[ShellWord, ...]:
    words = command.words
    while words and (words[0].text in RESERVED_WORDS or ASSIGNMENT_START.match(words[0].text)):
        words = words[1:]
    return words


def find_patch_text(command: SimpleCommand) -> str:
    """Return the text passed to apply_patch: its here-document, or its only argument."""
    arguments = program_words(command)[1:]
    if len(command.documents) == 1 and not arguments:
        document = command.documents[0]
        if not document.closed:
            raise PatchError("its here-document is not closed")
        if not document.quoted and EXPANDED_CHARS.search(document.body):
            raise PatchError("the shell would change its text; quote the delimiter: <<'EOF'")
        return document.body
    if len(arguments) == 1 and arguments[0].literal and not command.fed:
        return arguments[0].text
    raise PatchError("the command does not show it; expected apply_patch <<'EOF' … EOF")


def find_folder(commands: Iterable[SimpleCommand]) -> str:
    """Return the working folder of the last command: each earlier `cd` must be plain and joined by `&&`."""
    folder, sure = "", True
    for command in commands:
        sure = sure and command.before in (("&&",) if folder else CD_OPERATORS)
        if program_name(command) in CHANGES_FOLDER:
            raise PatchError("the folder it is applied in is not known; use absolute paths")
        if program_name(command) == "cd":
            sure = command.before in CD_OPERATORS if not folder else sure
            words = program_words(command)[1:]
            if len(words) != 1 or not words[0].literal or words[0].text.startswith("-") or not words[0].text:
                raise PatchError("the folder that cd names is not plain")
            folder = posixpath.join(folder, words[0].text)
        if folder and (not sure or command.depth):
            raise PatchError("the folder it is applied in is not sure; write cd FOLDER && apply_patch, nothing between")
    return folder
