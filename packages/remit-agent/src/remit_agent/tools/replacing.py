"""The tools that replace text in a file. The search is the same (`core/diff/place.py`), the arguments differ."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from msgspec import Meta, Struct

from remit.core.diff.contents import encode_content, encode_text
from remit.core.diff.edits import Patching, WholeFile, replace_places
from remit.core.diff.formats import FileOperation, Patch
from remit.core.diff.place import BLANKS, TextPlace, find_places
from remit_agent.tools.nearest import describe_nearest
from remit_agent.tools.reading import FilePath, read_text
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure
from remit_agent.tools.writing import FileProposal, Proposal, prepare_changes, read_existing

MAX_NAMED_PLACES = 10
SEARCH, DIVIDER, REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
START_LINE = re.compile(r":start_line:\s*(\d+)\s*")
RULER = "-------"
ESCAPED_MARK = re.compile(r"\\(?=\\*(?:<{7}|={7}|>{7}|-{7}|:start_line:))")


class ReplaceText(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace a text in a file. `old_string` is the text as it stands in the file, without the line numbers of
    read_file, and long enough to occur once; `replace_all` exchanges every occurrence. Example:
    {"file_path": "src/app.py", "old_string": "    return 1\\n", "new_string": "    return 2\\n"}
    """

    file_path: FilePath
    old_string: str
    new_string: str
    replace_all: bool = False


class EditFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace a text that occurs `expected_replacements` times in a file; an empty `old_string` creates the file.
    Example: {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2", "expected_replacements": 1}
    """

    file_path: FilePath
    old_string: str
    new_string: str
    expected_replacements: Annotated[int, Meta(ge=1)] = 1


class SearchReplace(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace the one occurrence of a text in a file; give enough lines around it. Example:
    {"file_path": "a.py", "old_string": "def f():\\n    return 1", "new_string": "def f():\\n    return 2"}
    """

    file_path: FilePath
    old_string: str
    new_string: str


class ApplyDiff(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace lines in one or more places of a file, all or none. Each block names lines as they stand in the file;
    `:start_line:` tells equal places apart; a line of the file that looks like a mark gets a backslash first. Example:
    {"path": "a.py", "diff": "<<<<<<< SEARCH\\n:start_line:4\\n-------\\nx = 1\\n=======\\nx = 2\\n>>>>>>> REPLACE"}
    """

    path: FilePath
    diff: str


class TextExchange(Struct, frozen=True):
    """A text to find, its replacement, and the number of replacements (None: at every place).

    With `whole_lines` the text is whole lines. `line`, a line `above` and the end of the file tell equal places apart;
    `way_out` says what else does.
    """

    old: str
    new: str
    count: int | None = 1
    line: int | None = None
    whole_lines: bool = False
    above: str | None = None
    at_end: bool = False
    way_out: str = "take in more of the lines around the one you mean"


def prepare_exchanges(context: ToolContext, path: str, exchanges: Sequence[TextExchange]) -> PreparedCall:
    def compute() -> Proposal:
        content = read_text(context, path)
        places: list[TextPlace] = []
        for n, exchange in enumerate(exchanges, 1):
            where = f"{path}: block {n} of {len(exchanges)}: " if len(exchanges) > 1 else f"{path}: "
            if not exchange.old.strip():
                raise ToolFailure("EDIT_NOT_FOUND", f"{where}the text to replace is empty; name lines of the file")
            if exchange.old == exchange.new:
                raise ToolFailure("EDIT_WITHOUT_CHANGE", f"{where}old and new text are the same")
            places += choose_places(content, exchange, where)
        change, operation = exchange_places(path, content, places)
        return Proposal((change,), Patching(Patch((operation,))))

    return prepare_changes(context, [path], compute, checks_itself=True)


def choose_places(content: str, exchange: TextExchange, where: str, earlier: int = 0) -> list[TextPlace]:
    """Return the places that an exchange means, of several those from the index `earlier` on. Raises ToolFailure."""
    places = find_places(content, exchange.old, exchange.new, whole_lines=exchange.whole_lines)
    if not places:
        message = f"{where}the text to replace is not in the file.{describe_nearest(content, exchange.old)}"
        raise ToolFailure("EDIT_NOT_FOUND", message, "revise_arguments")
    if exchange.count is None:
        apart: list[TextPlace] = []
        for place in places:
            apart += [place] if not apart or place.start >= apart[-1].end else []
        places = apart
    elif len(places) > 1:
        places = [place for place in places if place.start >= earlier] or places
        places = narrow_places(content, exchange, places)
    lines = [content.count("\n", 0, place.start) + 1 for place in places]
    if exchange.count not in (None, len(places)):
        named = ", ".join(map(str, lines[:MAX_NAMED_PLACES]))
        message = f"{where}the text to replace stands {len(places)} times in the file (lines {named}), not "
        raise ToolFailure("EDIT_AMBIGUOUS", f"{message}{exchange.count}; {exchange.way_out}")
    if any(loses_indentation(content, place, exchange.new) for place in places):
        message = f"{where}the old text begins after the indentation of line {lines[0]}, and the new lines have none; "
        raise ToolFailure("EDIT_AMBIGUOUS", f"{message}give whole lines with their indentation in both texts")
    return places


def narrow_places(content: str, exchange: TextExchange, places: list[TextPlace]) -> list[TextPlace]:
    """Return the places below the line above, at the end of the file, or at the line; all if none is."""
    if exchange.above is not None:
        above = [place.end for place in find_places(content, f"{exchange.above}\n", "", whole_lines=True)]
        below = {min((place.start for place in places if place.start >= end), default=-1) for end in above}
        places = [place for place in places if place.start in below] or places
    if exchange.at_end and len(places) > 1:
        places = [place for place in places if not content[place.end :].strip()] or places
    at_line = [place for place in places if content.count("\n", 0, place.start) + 1 == exchange.line]
    return at_line[:1] or places


def exchange_places(path: str, content: str, places: Sequence[TextPlace]) -> tuple[FileProposal, FileOperation]:
    """Return the change of a file at places, and the operation that says exactly this change and the lines that stay.

    Raises ToolFailure if two places overlap.
    """
    ordered = sorted(places, key=lambda place: place.start)
    if any(after.start < before.end for before, after in pairwise(ordered)):
        raise ToolFailure("EDIT_AMBIGUOUS", f"{path}: two blocks change the same lines; make one of them")
    edited = replace_places(content, places)
    change = FileProposal(path, encode_content(content), encode_content(edited.content), edited)
    return change, FileOperation("update", path, hunks=edited.hunks)


def loses_indentation(content: str, place: TextPlace, new: str) -> bool:
    start = content.rfind("\n", 0, place.start) + 1
    indent = content[start : place.start]
    ends_line = place.end == len(content) or "\n" in content[place.end - 1 : place.end + 2].lstrip("\r")
    later = [line for line in new.split("\n")[1:] if line.strip(BLANKS)]
    is_alone = bool(indent) and not indent.strip(BLANKS) and ends_line
    return (
        is_alone
        and "\n" not in content[place.start : place.end].rstrip("\n")
        and any(not line.startswith(indent) for line in later)
    )


def parse_blocks(diff: str) -> list[TextExchange]:
    """Return the exchanges of a diff in blocks. Raises ToolFailure (PATCH_INVALID) with the line."""
    exchanges: list[TextExchange] = []
    sides: list[list[str]] | None = None
    line: int | None = None
    for n, raw in enumerate(diff.split("\n"), 1):
        text = raw.removesuffix("\r")
        mark = text.rstrip()
        if sides is None:
            if mark == SEARCH:
                sides, line = [[]], None
            elif mark:
                raise invalid_block(n, text, SEARCH)
        elif mark in (SEARCH, f"{SEARCH}>"):
            raise invalid_block(n, text, DIVIDER if len(sides) == 1 else REPLACE)
        elif mark == DIVIDER:
            if len(sides) == 2:
                raise invalid_block(n, text, REPLACE)
            sides.append([])
        elif mark == REPLACE:
            if len(sides) == 1:
                raise invalid_block(n, text, DIVIDER)
            old, new = ("".join(f"{part}\n" for part in side) for side in sides)
            exchanges.append(TextExchange(old, new, line=line, whole_lines=True))
            sides = None
        elif len(sides) == 1 and not sides[0] and (match := START_LINE.fullmatch(text)):
            line = int(match[1])
        elif not (len(sides) == 1 and not sides[0] and mark == RULER):
            sides[-1].append(ESCAPED_MARK.sub("", text, count=1) if text.startswith("\\") else text)
    if sides is not None or not exchanges:
        raise invalid_block(diff.count("\n") + 1, "the end", REPLACE if sides is not None else SEARCH)
    return exchanges


def invalid_block(line: int, found: str, expected: str) -> ToolFailure:
    message = f"line {line} of the diff is {found[:80]!r}; expected {expected!r}"
    return ToolFailure(
        "PATCH_INVALID", f"{message}. A line of the file that looks like a mark gets a backslash before it"
    )


def prepare_replacement(context: ToolContext, given: ReplaceText) -> PreparedCall:
    exchange = TextExchange(given.old_string, given.new_string, None if given.replace_all else 1)
    return prepare_exchanges(context, given.file_path, [exchange])


def prepare_edit_file(context: ToolContext, given: EditFile) -> PreparedCall:
    if given.old_string:
        exchange = TextExchange(given.old_string, given.new_string, given.expected_replacements)
        return prepare_exchanges(context, given.file_path, [exchange])

    def compute() -> Proposal:
        before = read_existing(context, given.file_path)
        if before:
            message = f"{given.file_path} exists and is not empty; an empty old_string only creates files"
            raise ToolFailure("EDIT_NOT_FOUND", message)
        change = FileProposal(given.file_path, before, encode_text(given.new_string))
        return Proposal((change,), WholeFile(given.new_string))

    return prepare_changes(context, [given.file_path], compute)


def prepare_search_replace(context: ToolContext, given: SearchReplace) -> PreparedCall:
    return prepare_exchanges(context, given.file_path, [TextExchange(given.old_string, given.new_string)])


def prepare_diff(context: ToolContext, given: ApplyDiff) -> PreparedCall:
    return prepare_exchanges(context, given.path, parse_blocks(given.diff))


REPLACING_TOOLS = (
    HostTool("edit", ReplaceText, "write", prepare_replacement, cites_intent=True),
    HostTool("edit_file", EditFile, "write", prepare_edit_file, cites_intent=True),
    HostTool("search_replace", SearchReplace, "write", prepare_search_replace, cites_intent=True),
    HostTool("apply_diff", ApplyDiff, "write", prepare_diff, cites_intent=True),
)
