"""Which files a command's text names as its outputs, though the rest of it may do anything.

A file that is only mentioned is no output: `pytest tests/test_x.py` names one that a person may save meanwhile. Named
is what a redirect truncates, what a program of the tables writes, what an option called `--output` has as its value,
and what a program in the text itself opens for writing. A folder names nothing: other people's files lie in it, too.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from remit.policy.commands.analysis import MAX_BYTES as LONGEST_PROVED
from remit.policy.commands.analysis import analyse
from remit.policy.commands.parse.syntax_tree import mask_text, parse_tree, unmask_text
from remit.policy.commands.parse.words import UnprovedCommand, node_source, read_word

if TYPE_CHECKING:
    from tree_sitter import Node

OutputKind: TypeAlias = Literal["whole", "edited", "added"]
"""What the command does to the file: puts another content there, replaces parts of lines, or else (it appends, lays
out anew, sets rights) nothing that could not be somebody else's doing."""

MAX_CHARS = 1 << 18
"""Characters; a longer text names nothing. What is asked here decides nothing, and a shell takes half of that."""

TRUNCATING_REDIRECTS = frozenset({">", ">|", "&>"})
APPENDING_REDIRECTS = frozenset({">>", "&>>"})
WITHOUT_CONTENT = frozenset({"rm", "unlink", "rmdir", "shred", "truncate", "touch", "git", "mv"})
"""Programs that leave no content of their own: they take it away, or bring what somebody else wrote."""

EDITING_PROGRAMS = frozenset({"sed", "perl"})
NESTED_STATEMENTS = frozenset({"program", "list"})

CHANGE_FOLDER = re.compile(r"cd[ \t]+(['\"]?)([\w./@+-]+)\1")
PROGRAM_NAME = re.compile(
    r"(?:\w+=\S*[ \t]+)*(?:(?:uv|poetry|pipenv|rye|pdm|hatch)[ \t]+run[ \t]+)?(?:[\w./~-]*/)?(\w+)"
)
OUTPUT_OPTION = re.compile(r"(?<!\S)--out(?:put|file|-file|put-file)?[= ](['\"]?)([\w./@+-]{1,400})\1(?!\S)")

HERE_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1")
INLINE_SCRIPT = re.compile(r"(?<!\S)(?:-[a-zA-Z]*[ceE]|--eval)(?!\w)|<<")
INTERPRETER = re.compile(r"(?:python[\d.]*|node|bun|deno|ruby)$")
_PLACE = (
    r"(?:(?:pathlib\.)?Path\(\s*)?(?:(?P<q>['\"])(?P<path>[^'\"\n]{1,400})(?P=q)|(?P<name>[a-zA-Z_]\w{0,60}))\s*\)?"
)
PATH_ASSIGNMENT = re.compile(
    r"(?<![\w.])([a-zA-Z_]\w{0,60})\s*=\s*(?:(?:pathlib\.)?Path\(\s*)?(['\"])([^'\"\n]{1,400})\2\s*\)?\s*(?:[;\n]|$)"
)
ANY_ASSIGNMENT = re.compile(r"(?<![\w.])([a-zA-Z_]\w{0,60})\s*(?:=(?!=)|\bin\b)")
WRITING_CALLS = (
    re.compile(rf"(?<![\w.])open\(\s*{_PLACE}\s*,\s*(?:mode\s*=\s*)?['\"](?:[wx][bt+]*|[br]*\+[br]*)['\"]"),
    re.compile(rf"(?<![\w.]){_PLACE}\.write_(?:text|bytes)\("),
    re.compile(rf"(?<![\w.]){_PLACE}\.open\(\s*(?:mode\s*=\s*)?['\"][wx]"),
    re.compile(rf"(?:writeFile|writeFileSync|writeTextFile|Bun\.write|File\.write)\(\s*{_PLACE}\s*,"),
    re.compile(rf"File\.open\(\s*{_PLACE}\s*,\s*['\"]w"),
)
APPENDING_CALLS = (
    re.compile(rf"(?<![\w.])open\(\s*{_PLACE}\s*,\s*(?:mode\s*=\s*)?['\"]a[bt]*['\"]"),
    re.compile(rf"(?<![\w.]){_PLACE}\.open\(\s*(?:mode\s*=\s*)?['\"]a[bt]*['\"]"),
    re.compile(rf"(?:appendFile|appendFileSync)\(\s*{_PLACE}\s*,"),
)
"""How programs in a text write a file that the text names, and how they add to one. Source: the manuals of
Python 3.14, Node.js 24, Deno 2, Bun 1 and Ruby 3.4, read 2026-11."""


READING_CALLS = re.compile(
    r"\.read(?:_text|_bytes|lines?)?\(|\b(?:readFile|readFileSync|readTextFile)\(|\bFile\.(?:read|foreach)\b"
)
"""What reads a file, maybe the one that is written then: of that, parts may stay."""


class CommandOutput(Struct, frozen=True):
    """One file, as the text names it: relative to where the command starts, or absolute."""

    path: str
    how: OutputKind


def find_outputs(command: str) -> tuple[CommandOutput, ...]:
    """The files that the text names as outputs, each once, `whole` before all else. Never raises; pure."""
    if len(command) > MAX_CHARS:
        return ()
    try:
        root = parse_tree(mask_text(command))
    except UnprovedCommand:
        return ()
    found: dict[str, OutputKind] = {}
    for output in _statement_outputs(root):
        if found.get(output.path) != "whole":
            found[output.path] = output.how
    return tuple(CommandOutput(path, how) for path, how in found.items())


def _statement_outputs(root: "Node") -> Iterator[CommandOutput]:
    """What each statement names; nothing after a change to a folder that the text does not tell."""
    folder = "."
    for node, text in _statements(root):
        if text.startswith(("cd ", "cd\t", "pushd", "popd")):
            moved = CHANGE_FOLDER.fullmatch(text.strip())
            if moved is None:
                return
            folder = posixpath.join(folder, moved[2])
            continue
        for output in (
            *_redirect_outputs(node),
            *_proved_outputs(text),
            *_option_outputs(text),
            *_script_outputs(text),
        ):
            yield CommandOutput(posixpath.join(folder, output.path), output.how)


def _statements(node: "Node") -> Iterator[tuple["Node", str]]:
    """The statements that the shell runs one after the other, with their texts. The grammar takes a redirect at the end
    of a list for the list's: its own statement has no text here.
    """
    for child in node.children:
        body = child.children[0] if child.type == "redirected_statement" else None
        if child.type in NESTED_STATEMENTS:
            yield from _statements(child)
        elif body is not None and body.type in NESTED_STATEMENTS:
            yield from _statements(body)
            yield child, ""
        elif child.is_named:
            yield child, unmask_text(node_source(child))


def _redirect_outputs(node: "Node") -> Iterator[CommandOutput]:
    """What the statement's own redirects truncate, or add to."""
    own = node.children if node.type == "redirected_statement" else []
    beside = [inner for redirect in own if redirect.type == "heredoc_redirect" for inner in redirect.children]
    for child in (*own, *beside):
        parts = [part for part in child.children if part.type != "file_descriptor"]
        if (
            child.type != "file_redirect"
            or len(parts) != 2
            or parts[0].type not in TRUNCATING_REDIRECTS | APPENDING_REDIRECTS
        ):
            continue
        try:
            word = read_word(parts[1])
        except UnprovedCommand:
            continue
        if word.is_literal and word.text and not word.text.startswith("/dev/"):
            yield CommandOutput(unmask_text(word.text), "whole" if parts[0].type in TRUNCATING_REDIRECTS else "added")


def _proved_outputs(text: str) -> Iterator[CommandOutput]:
    """What the tables of programs say, where they know the statement."""
    head = PROGRAM_NAME.match(text)
    program = head[1] if head else ""
    for write in analyse(strip_here_document(text)).writes or () if program not in WITHOUT_CONTENT else ():
        if not (write.glob or write.adds_names or write.makes_folder):
            edited: OutputKind = "edited" if program in EDITING_PROGRAMS else "added"
            yield CommandOutput(write.path, edited if write.edits_in_place else "whole")


def strip_here_document(text: str) -> str:
    """A statement too long to be proved, without what its here-document says: where that goes, the rest tells."""
    head, mark, rest = text.partition("\n") if len(text) > LONGEST_PROVED else (text, "", "")
    found = HERE_DOCUMENT.search(head)
    return f"{head}\n{found[2]}" if mark and found and rest.rstrip("\n").endswith(f"\n{found[2]}") else text


def _option_outputs(text: str) -> Iterator[CommandOutput]:
    """What options that are called so name. A here-document is no option."""
    return (CommandOutput(found[2], "whole") for found in OUTPUT_OPTION.finditer(text.partition("<<")[0]))


def _script_outputs(text: str) -> Iterator[CommandOutput]:
    """What a program in the statement itself opens for writing: not one that is only written down there."""
    head = PROGRAM_NAME.match(text)
    if head is None or not INTERPRETER.match(head[1]) or not INLINE_SCRIPT.search(text):
        return
    known = _assigned_paths(text)
    how: OutputKind = "edited" if READING_CALLS.search(text) else "whole"
    yield from (CommandOutput(path, "added") for path in _named_paths(text, APPENDING_CALLS, known))
    yield from (CommandOutput(path, how) for path in _named_paths(text, WRITING_CALLS, known))


def _named_paths(text: str, forms: Iterable[re.Pattern[str]], paths: Mapping[str, str]) -> Iterator[str]:
    """The paths in one of these forms, by themselves or by a name that stands for one."""
    for form in forms:
        for found in form.finditer(text):
            if path := found["path"] or paths.get(found["name"] or ""):
                yield path


def _assigned_paths(text: str) -> dict[str, str]:
    """The paths that names stand for, as far as each stands for one thing only."""
    times: dict[str, int] = {}
    for found in ANY_ASSIGNMENT.finditer(text):
        times[found[1]] = times.get(found[1], 0) + 1
    return {found[1]: found[3] for found in PATH_ASSIGNMENT.finditer(text) if times.get(found[1]) == 1}
