"""Redirects and here-documents: what they read and write."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from remit.policy.commands.effects import located, written
from remit.policy.commands.options import names
from remit.policy.commands.state import merged
from remit.policy.commands.syntax import unmasked
from remit.policy.commands.tables import WRITTEN_TO_FREELY
from remit.policy.commands.walk import Proof, Walk
from remit.policy.commands.words import HOME, START, Refused, Word, live_text, source

if TYPE_CHECKING:
    from tree_sitter import Node

WRITING = names("> >> &> &>> >| >& <>")
REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
DOCUMENT = names("heredoc_start heredoc_body heredoc_end << <<-")


def with_redirects(walk: Walk, body: "Node", redirects: Sequence["Node"]) -> Proof:
    """A statement and its redirects, which the shell looks at first; here-documents may hold what comes after."""
    plain = [child for child in redirects if child.type != "heredoc_redirect"]
    documents = [child for child in redirects if child.type == "heredoc_redirect"]
    proof = walk.all(plain)
    before, fed = walk.redirecting, walk.fed
    walk.redirecting, walk.fed = True, None if any(map(feeds, redirects)) else walk.fed
    proof += walk.all(d for d in documents if not later(d)) + walk.statement(body)
    walk.redirecting, walk.fed = before, fed
    return proof + walk.all(d for d in documents if later(d))


def file_redirect(walk: Walk, node: "Node") -> Proof:
    """`>`, `<` and their kin; raises Refused."""
    children = [child for child in walk.text.children(node) if child.type != "file_descriptor"]
    operator, targets = children[0].type, children[1:]
    if operator in (">&-", "<&-") and not targets:
        return Proof()
    if len(targets) != 1:
        raise Refused(f"the redirect {source(node)!r} is not understood")
    target = walk.read_word(targets[0])
    if operator == "<":
        return source_of(walk, target) + walk.inner((target,))
    if operator in (">&", "<&") and target.literal and (target.text.isdigit() or target.text == "-"):
        return Proof()
    if operator not in WRITING:
        raise Refused(f"the redirect {source(node)!r} is not on the tables")
    if target.text == "/dev/fd/" and target.inner:
        return walk.inner((target,))
    if target.literal and target.text in WRITTEN_TO_FREELY:
        return Proof()
    return target_of(walk, target, edits=operator in (">>", "&>>", "<>"))


def target_of(walk: Walk, target: Word, *, edits: bool) -> Proof:
    """What a redirect writes."""
    write = replace(written(target, "a redirect"), edits=edits)
    check_place(write.path)
    return Proof(writes=(located(write, walk.state.folder),), acts=True)


def source_of(walk: Walk, target: Word) -> Proof:
    """Reading a file. bash takes `/dev/tcp/…` for a connection, which an expansion could make."""
    if target.text.startswith(("/dev/tcp", "/dev/udp")) or (target.glob is None and not target.inner):
        raise Refused("a redirect from what the text does not show, or from the network")
    if target.glob is None and target.text != "/dev/fd/":
        raise Refused("a redirect from what the text does not show")
    return Proof(reads=(plain(target.text),) if target.literal else ())


def herestring(walk: Walk, node: "Node") -> Proof:
    """`<<<`: only what expands in it matters."""
    children = walk.text.children(node)
    if len(children) != 2 or children[0].type != "<<<":
        raise Refused(f"the redirect {source(node)!r} is not understood")
    return walk.inner((walk.read_word(children[1]),))


def heredoc(walk: Walk, node: "Node") -> Proof:
    """A here-document, and what follows its mark on the line."""
    children = walk.text.children(node)
    parts = {child.type: child for child in children}
    start, body, end = (parts.get("heredoc_" + part) for part in ("start", "body", "end"))
    if start is None or body is None or end is None:
        raise Refused("a here-document is not understood")
    mark = re.fullmatch(r"(['\"]?)(\w+)\1", source(start), re.ASCII)
    if mark is None or sum(child.type.startswith("heredoc") for child in children) != 3:
        raise Refused("the end of a here-document is not understood")
    check_end(walk, body, end, mark[2], tabs="<<-" in parts)
    proof = Proof() if mark[1] else live_body(walk, body, end)
    return proof + beside(walk, children)


def beside(walk: Walk, children: list["Node"]) -> Proof:
    """The rest of the line on which a here-document is asked for."""
    rest = [child for child in children if child.type not in DOCUMENT]
    if any(not child.is_named and child.type not in ("&&", "||", "|") for child in rest):
        raise Refused("what follows a here-document is not understood")
    if not any(child.type == "|" for child in rest):
        return after(walk, rest)
    with walk.apart():
        return after(walk, rest)


def after(walk: Walk, nodes: Sequence["Node"]) -> Proof:
    """What follows runs or does not, for all that the text tells."""
    proof = Proof()
    for child in nodes:
        if child.is_named:
            start = walk.state
            proof += walk.statement(child)
            walk.settle()
            if child.type not in REDIRECTS:
                walk.failed = merged(start, walk.state)
    return proof


def check_end(walk: Walk, body: "Node", end: "Node", mark: str, *, tabs: bool) -> None:
    """The body ends where bash ends it: at the first line that is the mark; raises Refused."""
    raw = walk.text.raw
    lines = raw[body.start_byte : end.end_byte].decode().split("\n")
    bare = [line.lstrip("\t") if tabs else line for line in lines]
    if bare.count(mark) != 1 or bare[-1] != mark or raw[end.end_byte : end.end_byte + 1] not in (b"", b"\n"):
        raise Refused("the end of a here-document is not understood")


def live_body(walk: Walk, body: "Node", end: "Node") -> Proof:
    """The text of a here-document in which the shell expands."""
    if b"\\\n" in walk.text.raw[body.start_byte : end.start_byte]:
        raise Refused("a line is continued inside a here-document")
    return walk.inner((live_text(body, body.start_byte, body.end_byte, "", walk.state.known),))


def later(node: "Node") -> bool:
    """Whether a here-document holds commands that run after the one it feeds."""
    return any(child.type in ("&&", "||", "|") for child in node.children)


def feeds(node: "Node") -> bool:
    """Whether a redirect is of what comes in."""
    return node.type != "file_redirect" or any(child.type in ("<", "<&", "<>") for child in node.children)


def check_place(path: str) -> None:
    """Devices, and what leads anywhere, are no plain files; raises Refused."""
    if path.startswith(("/dev/", "/proc/", "/sys/")) and path not in WRITTEN_TO_FREELY:
        raise Refused(f"{path!r} is no plain file")


def plain(path: str) -> str:
    """A file that is read, as others write its name; empty where that is in the home folder."""
    return "" if HOME in path or START in path else unmasked(path)
