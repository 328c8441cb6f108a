"""The output files named in a command's text; the rest of the command may do anything.

A mentioned file is no output: a person may save the file of `pytest tests/test_x.py` meanwhile. Outputs are the targets
of redirects, the written files of programs in the table, the values of options such as `--output`, and the files opened
for writing by a script in the text. A folder is no output: other people's files lie in the same folder.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from remit.policy.commands.analysis import MAX_BYTES, analyse
from remit.policy.commands.parse.command import parse_command
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import UnprovedCommand, node_source, read_word

if TYPE_CHECKING:
    from tree_sitter import Node

OutputKind: TypeAlias = Literal["whole", "edited", "added"]
"""The change of the file: a new content, new parts of lines, or a change possible for any writer (append, reformat, set
rights)."""

MAX_CHARS = 1 << 18
"""Characters of a command; a longer one names no output. Nothing is decided here, and a shell takes half as much."""

TRUNCATING_REDIRECTS = frozenset({">", ">|", "&>"})
APPENDING_REDIRECTS = frozenset({">>", "&>>"})
WITHOUT_CONTENT = word_set("rm unlink rmdir shred truncate touch git mv")
"""Programs that leave no content of their own: they remove files, or bring content that others wrote."""

EDITING_PROGRAMS = word_set("sed perl")
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
"""Calls by which scripts in a text write a named file, and append to one. Source: the manuals of Python 3.14,
Node.js 24, Deno 2, Bun 1 and Ruby 3.4, read 2026-11."""

READING_CALLS = re.compile(
    r"\.read(?:_text|_bytes|lines?)?\(|\b(?:readFile|readFileSync|readTextFile)\(|\bFile\.(?:read|foreach)\b"
)
"""Calls that read a file, perhaps the file that is written afterwards: parts of the content may stay."""


class CommandOutput(Struct, frozen=True):
    """An output file, relative to the folder that the command starts in, or absolute."""

    path: str
    how: OutputKind


def find_outputs(command: str) -> tuple[CommandOutput, ...]:
    """Return the named outputs, each once, `whole` before other kinds. Never raises; pure."""
    if len(command) > MAX_CHARS:
        return ()
    try:
        root = parse_command(command).tree
    except UnprovedCommand:
        return ()
    found: dict[str, OutputKind] = {}
    for output in find_statement_outputs(root):
        if found.get(output.path) != "whole":
            found[output.path] = output.how
    return tuple(CommandOutput(path, how) for path, how in found.items())


def find_statement_outputs(root: "Node") -> Iterator[CommandOutput]:
    """Yield the outputs of each statement, up to a change to an unknown folder."""
    folder = "."
    for node, text in split_statements(root):
        if text.startswith(("cd ", "cd\t", "pushd", "popd")):
            target = CHANGE_FOLDER.fullmatch(text.strip())
            if target is None:
                return
            folder = posixpath.join(folder, target[2])
            continue
        named = (*redirect_outputs(node), *proved_outputs(text), *option_outputs(text), *script_outputs(text))
        for output in named:
            yield CommandOutput(posixpath.join(folder, output.path), output.how)


def split_statements(node: "Node") -> Iterator[tuple["Node", str]]:
    """Yield the statements that the shell runs in order, with their texts.

    The grammar gives a redirect at the end of a list to the list: the list then counts as a statement without text.
    """
    for child in node.children:
        body = child.children[0] if child.type == "redirected_statement" else None
        if child.type in NESTED_STATEMENTS:
            yield from split_statements(child)
        elif body is not None and body.type in NESTED_STATEMENTS:
            yield from split_statements(body)
            yield child, ""
        elif child.is_named:
            yield child, unmask_text(node_source(child))


def redirect_outputs(node: "Node") -> Iterator[CommandOutput]:
    """Yield the targets of the statement's own redirects."""
    own = node.children if node.type == "redirected_statement" else []
    on_document_line = [inner for redirect in own if redirect.type == "heredoc_redirect" for inner in redirect.children]
    for child in (*own, *on_document_line):
        parts = [part for part in child.children if part.type != "file_descriptor"]
        if child.type != "file_redirect" or len(parts) != 2:
            continue
        if parts[0].type not in TRUNCATING_REDIRECTS | APPENDING_REDIRECTS:
            continue
        try:
            word = read_word(parts[1])
        except UnprovedCommand:
            continue
        if word.is_literal and word.text and not word.text.startswith("/dev/"):
            yield CommandOutput(unmask_text(word.text), "whole" if parts[0].type in TRUNCATING_REDIRECTS else "added")


def proved_outputs(text: str) -> Iterator[CommandOutput]:
    """Yield the writes proved by the table of programs."""
    head = PROGRAM_NAME.match(text)
    program = head[1] if head else ""
    if program in WITHOUT_CONTENT:
        return
    for write in analyse(strip_here_document(text)).writes or ():
        if not (write.glob or write.adds_names or write.makes_folder):
            edited: OutputKind = "edited" if program in EDITING_PROGRAMS else "added"
            yield CommandOutput(write.path, edited if write.edits_in_place else "whole")


def strip_here_document(text: str) -> str:
    """Return a statement that is too long to be proved without the lines of its here-document."""
    if len(text) <= MAX_BYTES:
        return text
    head, mark, rest = text.partition("\n")
    found = HERE_DOCUMENT.search(head)
    return f"{head}\n{found[2]}" if mark and found and rest.rstrip("\n").endswith(f"\n{found[2]}") else text


def option_outputs(text: str) -> Iterator[CommandOutput]:
    return (CommandOutput(found[2], "whole") for found in OUTPUT_OPTION.finditer(text.partition("<<")[0]))


def script_outputs(text: str) -> Iterator[CommandOutput]:
    """Yield the files opened for writing by a script in the statement; a saved script does not run."""
    head = PROGRAM_NAME.match(text)
    if head is None or not INTERPRETER.match(head[1]) or not INLINE_SCRIPT.search(text):
        return
    paths = assigned_paths(text)
    how: OutputKind = "edited" if READING_CALLS.search(text) else "whole"
    yield from (CommandOutput(path, "added") for path in named_paths(text, APPENDING_CALLS, paths))
    yield from (CommandOutput(path, how) for path in named_paths(text, WRITING_CALLS, paths))


def named_paths(text: str, calls: Iterable[re.Pattern[str]], paths: Mapping[str, str]) -> Iterator[str]:
    for call in calls:
        for found in call.finditer(text):
            if path := found["path"] or paths.get(found["name"] or ""):
                yield path


def assigned_paths(text: str) -> dict[str, str]:
    times: dict[str, int] = {}
    for found in ANY_ASSIGNMENT.finditer(text):
        times[found[1]] = times.get(found[1], 0) + 1
    return {found[1]: found[3] for found in PATH_ASSIGNMENT.finditer(text) if times.get(found[1]) == 1}
