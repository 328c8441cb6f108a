"""The process beside the daemon that answers `remit blame`, as the command does, for the asking process.

The daemon hands connections over because the daemon shares its interpreter with calls that agents wait for. The process
declines questions that it cannot answer, errors included, and the asking process answers them.
"""

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import click
from msgspec import Struct

from remit.cli.ask_daemon import COMPARED_VARIABLES, DECLINED_EXIT_CODE, find_git
from remit.cli.blame.blame import AskingProcess, LineFilter, blame, compose_reply, read_question
from remit.cli.output import known_errors, unavailable_errors
from remit.servers.questions import IDLE_TIMEOUT_S, pack_answer, receive_question
from remit.workspace.place.workspace import locate_workspace

DECLINE = pack_answer(DECLINED_EXIT_CODE, b"", b"")


class AskedCommand(Struct, frozen=True):
    """A command as the asking process was told it, and that process."""

    words: tuple[str, ...]
    caller: AskingProcess
    git: str


def parse_message(message: bytes) -> AskedCommand:
    """Return the command of a message: folder, columns, encoding, git, the variables after their number, the words.
    Raises ValueError.
    """
    folder, columns, encoding, git, count, *rest = map(os.fsdecode, message.split(b"\0")[:-1])
    pairs = (pair.partition("=") for pair in rest[: int(count)])
    variables = {name: value for name, _, value in pairs}
    return AskedCommand(tuple(rest[int(count) :]), AskingProcess(Path(folder), int(columns), encoding, variables), git)


def answer_message(message: bytes) -> bytes:
    try:
        return answer_command(parse_message(message))
    except (click.ClickException, click.exceptions.Exit, *known_errors(), *unavailable_errors()):
        return DECLINE


def answer_command(asked: AskedCommand) -> bytes:
    """Return the packed reply to a blame command. Raises the errors of the command."""
    caller = asked.caller
    if asked.git != find_git() or any(
        caller.variables.get(name) != os.environ.get(name) for name in COMPARED_VARIABLES
    ):
        return DECLINE
    if asked.words[:1] != ("blame",) or "--help" in asked.words:
        return DECLINE
    context = blame.make_context("remit blame", list(asked.words[1:]))
    words, repo, as_json, color = (context.params.pop(name) for name in ("words", "repo", "as_json", "color"))
    workspace = locate_workspace(caller.folder / repo)
    if workspace is None or not workspace.is_governed:
        return DECLINE
    question = read_question(words, workspace, repo if repo == Path() else caller.folder / repo, caller.folder)
    if question.arguments.contents == "-":
        return DECLINE
    reply = compose_reply(question, LineFilter(**context.params), color, caller, as_json=as_json)
    out = os.fsencode(reply.pager) + b"\0" + reply.out if caller.columns else reply.out
    return pack_answer(0, out, reply.notice.encode())


def reply_to(connection: socket.socket, message: bytes) -> None:
    with connection, suppress(OSError):
        connection.sendall(answer_message(message))


def serve_questions(descriptor: int) -> None:
    """Answer the questions that come through a socket, each with its client's connection, until the daemon is gone or
    nobody asks.
    """
    with socket.socket(fileno=descriptor) as line:
        line.settimeout(IDLE_TIMEOUT_S)
        while True:
            try:
                asked = receive_question(line)
            except TimeoutError:
                return
            if asked is None:
                return
            threading.Thread(target=reply_to, args=asked, daemon=True).start()
