"""Redirects and here-documents: the files that they read and write."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from remit.policy.commands.interpret.interpreter import CommandProof, Interpreter
from remit.policy.commands.interpret.shell_state import merge_states
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import HOME_MARK, START_MARK, UnprovedCommand, Word, node_source, read_live_text
from remit.policy.commands.programs.effects import FREE_TARGETS, check_plain_file, locate_write, write_to

if TYPE_CHECKING:
    from tree_sitter import Node

WRITING_OPERATORS = word_set("> >> &> &>> >| >& <>")
REDIRECT_NODES = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
DOCUMENT_NODES = word_set("heredoc_start heredoc_body heredoc_end << <<-")


def interpret_with_redirects(shell: Interpreter, body: "Node", redirects: Sequence["Node"]) -> CommandProof:
    """Interpret a statement after its redirects, as the shell does. A here-document may contain what runs later."""
    plain = [child for child in redirects if child.type != "heredoc_redirect"]
    documents = [child for child in redirects if child.type == "heredoc_redirect"]
    proof = shell.interpret_all(plain)
    before, input_lines = shell.redirecting, shell.input_lines
    shell.redirecting = True
    if any(map(feeds_input, redirects)):
        shell.input_lines = None
    proof += shell.interpret_all(d for d in documents if not runs_after(d)) + shell.interpret(body)
    shell.redirecting, shell.input_lines = before, input_lines
    return proof + shell.interpret_all(d for d in documents if runs_after(d))


def interpret_file_redirect(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `>`, `<` and their kin. Raises UnprovedCommand."""
    children = [child for child in shell.text.children(node) if child.type != "file_descriptor"]
    operator, targets = children[0].type, children[1:]
    if operator in (">&-", "<&-") and not targets:
        return CommandProof()
    if len(targets) != 1:
        raise UnprovedCommand(f"the redirect {node_source(node)!r} is not understood")
    target = shell.read_word(targets[0])
    if operator == "<":
        return read_source(target) + shell.interpret_substitutions((target,))
    if operator in (">&", "<&") and target.is_literal and (target.text.isdigit() or target.text == "-"):
        return CommandProof()
    if operator not in WRITING_OPERATORS:
        raise UnprovedCommand(f"the redirect {node_source(node)!r} is not on the tables")
    if target.text == "/dev/fd/" and target.substitutions:
        return shell.interpret_substitutions((target,))
    if target.is_literal and target.text in FREE_TARGETS:
        return CommandProof()
    write = replace(write_to(target, "a redirect"), edits_in_place=operator in (">>", "&>>", "<>"))
    check_plain_file(write.path)
    return CommandProof(writes=(locate_write(write, shell.state.folder),), changes_state=True)


def read_source(target: Word) -> CommandProof:
    """Return the proof of a read file. For bash `/dev/tcp/…` is a connection, which an expansion could make."""
    if target.text.startswith(("/dev/tcp", "/dev/udp")) or (target.glob is None and not target.substitutions):
        raise UnprovedCommand("a redirect from what the text does not show, or from the network")
    if target.glob is None and target.text != "/dev/fd/":
        raise UnprovedCommand("a redirect from what the text does not show")
    return CommandProof(reads=(named_file(target.text),) if target.is_literal else ())


def interpret_herestring(shell: Interpreter, node: "Node") -> CommandProof:
    children = shell.text.children(node)
    if len(children) != 2 or children[0].type != "<<<":
        raise UnprovedCommand(f"the redirect {node_source(node)!r} is not understood")
    return shell.interpret_substitutions((shell.read_word(children[1]),))


def interpret_heredoc(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret a here-document, and the rest of the line behind its mark."""
    children = shell.text.children(node)
    parts = {child.type: child for child in children}
    start, body, end = (parts.get("heredoc_" + part) for part in ("start", "body", "end"))
    if start is None or body is None or end is None:
        raise UnprovedCommand("a here-document is not understood")
    mark = re.fullmatch(r"(['\"]?)(\w+)\1", node_source(start), re.ASCII)
    if mark is None or sum(child.type.startswith("heredoc") for child in children) != 3:
        raise UnprovedCommand("the end of a here-document is not understood")
    check_document_end(shell, body, end, mark[2], strip_tabs="<<-" in parts)
    proof = CommandProof() if mark[1] else expand_document(shell, body, end)
    rest = [child for child in children if child.type not in DOCUMENT_NODES]
    if any(not child.is_named and child.type not in ("&&", "||", "|") for child in rest):
        raise UnprovedCommand("what follows a here-document is not understood")
    if not any(child.type == "|" for child in rest):
        return proof + interpret_rest_of_line(shell, rest)
    with shell.subshell():
        return proof + interpret_rest_of_line(shell, rest)


def interpret_rest_of_line(shell: Interpreter, nodes: Sequence["Node"]) -> CommandProof:
    """Interpret statements that may or may not run."""
    proof = CommandProof()
    for child in nodes:
        if child.is_named:
            start = shell.state
            proof += shell.interpret(child)
            shell.merge_failure()
            if child.type not in REDIRECT_NODES:
                shell.failed_state = merge_states(start, shell.state)
    return proof


def check_document_end(shell: Interpreter, body: "Node", end: "Node", mark: str, *, strip_tabs: bool) -> None:
    """Raise UnprovedCommand unless the body ends where bash ends it: at the first line that is the mark."""
    raw = shell.text.raw
    lines = raw[body.start_byte : end.end_byte].decode().split("\n")
    bare = [line.lstrip("\t") if strip_tabs else line for line in lines]
    if bare.count(mark) != 1 or bare[-1] != mark or raw[end.end_byte : end.end_byte + 1] not in (b"", b"\n"):
        raise UnprovedCommand("the end of a here-document is not understood")


def expand_document(shell: Interpreter, body: "Node", end: "Node") -> CommandProof:
    if b"\\\n" in shell.text.raw[body.start_byte : end.start_byte]:
        raise UnprovedCommand("a line is continued inside a here-document")
    text = read_live_text(body, body.start_byte, body.end_byte, "", shell.state.known_variables)
    return shell.interpret_substitutions((text,))


def runs_after(node: "Node") -> bool:
    """Return True if a here-document contains commands that run after the one it feeds."""
    return any(child.type in ("&&", "||", "|") for child in node.children)


def feeds_input(node: "Node") -> bool:
    return node.type != "file_redirect" or any(child.type in ("<", "<&", "<>") for child in node.children)


def named_file(path: str) -> str:
    """Return a read file by its name in the text; empty for a file in the home folder."""
    return "" if HOME_MARK in path or START_MARK in path else unmask_text(path)
