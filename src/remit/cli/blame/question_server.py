"""The process beside the daemon that answers `remit blame`, as the command does, for the asking process.

The daemon hands connections over because the daemon shares its interpreter with calls that agents wait for. The process
declines questions that it cannot answer, errors included, and the asking process answers them.

While the inputs of an answer are unchanged, the answer in memory is given again. Reading the inputs takes a few
milliseconds: git's settings are asked of git, because includes and conditions decide them; all further inputs are
files. If an input cannot be read cheaply, there are no inputs, and the answer is computed anew.
"""

import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
from msgspec import Struct

from remit.cli.ask_daemon import COMPARED_VARIABLES, DECLINED_EXIT_CODE, find_git
from remit.cli.blame.arguments import option_name
from remit.cli.blame.blame import AskingProcess, BlameQuestion, LineFilter, blame, compose_reply, read_question
from remit.cli.output import known_errors, unavailable_errors
from remit.core.diff.contents import sha256
from remit.ledger.log_files import FOREIGN_FOLDER, list_segment_sizes
from remit.servers.questions import IDLE_TIMEOUT_S, pack_answer, receive_question
from remit.workspace.git.command import Git, GitError, file_state
from remit.workspace.git.repository import NOTES_REF, head_commit
from remit.workspace.place.workspace import Workspace, locate_workspace

MAX_ANSWERS = 64
MAX_ANSWER_BYTES = 4 * 1024 * 1024  # of one answer that is remembered
DECLINE = pack_answer(DECLINED_EXIT_CODE, b"", b"")

LASTING_OPTIONS = frozenset(
    {"-L", "-w", "-M", "-C", "-s", "-e", "-f", "-n", "-l", "-t", "-b", "-c", "--show-name", "--show-number"}
    | {"--show-email", "--abbrev", "--no-abbrev", "--root", "--minimal", "--first-parent", "--color-lines"}
)
"""Options that name no other file or commit, and whose effect does not depend on the time."""

OUTSIDE_SETTINGS = ("blame.ignorerevsfile", "blame.date", "mailmap.", "core.attributesfile", "color.blame.")
"""Settings that name further files, or whose effect depends on the time."""

GIT_FILES = ("packed-refs", "shallow", "info/grafts", "info/attributes", NOTES_REF)  # in the common folder
WORKTREE_FILES = ("index", "MERGE_HEAD")  # in the folder of the worktree


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


class AnswerInputs(Struct, frozen=True):
    """What an answer depends on, beside the command itself."""

    head: str
    settings: bytes
    content_sha256: str
    files: tuple[tuple[int, ...], ...]
    log: tuple[tuple[str, int], ...]


def read_inputs(question: BlameQuestion) -> AnswerInputs | None:
    """Return the inputs of a question's answer; None if some cannot be told. Raises OSError."""
    arguments, workspace = question.arguments, question.workspace
    file, common, git_dir = workspace.root / question.path, workspace.common_view, workspace.git_view
    if arguments.revisions or not {option_name(option) for option in arguments.options} <= LASTING_OPTIONS:
        return None
    if common is None or git_dir is None or file.is_symlink() or not file.is_file() or has_other_sources(workspace):
        return None
    try:
        settings = Git(question.folder).run("config", "--list", "--show-scope", "--show-origin", "-z")
    except GitError:
        return None
    names = settings.decode("utf-8", "replace").lower().split("\0")[2::3]
    head = head_commit(workspace)
    if head is None or any(name.startswith(OUTSIDE_SETTINGS) for name in names):
        return None
    top = next((folder for folder in (workspace.root, *workspace.root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return None
    paths = [*(common / name for name in GIT_FILES), *(git_dir / name for name in WORKTREE_FILES)]
    folders = [folder for folder in file.parents if folder.is_relative_to(top)]
    paths += [top / ".mailmap", *(folder / ".gitattributes" for folder in folders), *user_attribute_files()]
    sizes = tuple(list_segment_sizes(workspace.log_folder))
    return AnswerInputs(head, settings, sha256(file.read_bytes()), tuple(map(file_state, paths)), sizes)


def has_other_sources(workspace: Workspace) -> bool:
    """Return whether replaced objects, imported records or other machines' logs take part in answers."""
    replaced = (workspace.common_dir or workspace.state) / "refs" / "replace"
    imported = (workspace.log_folder / FOREIGN_FOLDER).is_dir() or workspace.tracked_logs.is_dir()
    return imported or (replaced.is_dir() and any(replaced.iterdir()))


def user_attribute_files() -> Iterator[Path]:
    """Yield git's attribute files outside of repositories. Source: gitattributes(5), read 2026-11."""
    yield Path("/etc/gitattributes")
    own = os.environ.get("XDG_CONFIG_HOME")
    yield (Path(own) if own else Path.home() / ".config") / "git" / "attributes"


class QuestionServer:
    """Answers by message: an answer is remembered until something that it depends on changes."""

    def __init__(self) -> None:
        self.answers: OrderedDict[bytes, tuple[AnswerInputs, bytes]] = OrderedDict()
        self.lock = threading.Lock()

    def answer(self, message: bytes) -> bytes:
        """Return the packed reply to a message."""
        try:
            asked = parse_message(message)
            return self.answer_command(message, asked)
        except (click.ClickException, click.exceptions.Exit, *known_errors(), *unavailable_errors()):
            return DECLINE

    def answer_command(self, message: bytes, asked: AskedCommand) -> bytes:
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

        # The inputs are read before the answer: what changes meanwhile is noticed by the next question.
        inputs = read_inputs(question)
        with self.lock:
            known = self.answers.get(message)
            if known is not None and inputs is not None and known[0] == inputs:
                self.answers.move_to_end(message)
                return known[1]
        reply = compose_reply(question, LineFilter(**context.params), color, caller, as_json=as_json)
        out = os.fsencode(reply.pager) + b"\0" + reply.out if caller.columns else reply.out
        packed = pack_answer(0, out, reply.notice.encode())
        if inputs is not None and not reply.has_uncommitted_lines and len(packed) <= MAX_ANSWER_BYTES:
            with self.lock:
                self.answers[message] = (inputs, packed)
                while len(self.answers) > MAX_ANSWERS:
                    self.answers.popitem(last=False)
        return packed

    def reply(self, connection: socket.socket, message: bytes) -> None:
        """Answer one client and close the connection. A client that is gone is no error."""
        with connection, suppress(OSError):
            connection.sendall(self.answer(message))


def serve_questions(descriptor: int) -> None:
    """Answer the questions that come through a socket, each with its client's connection, until the daemon is gone or
    nobody asks.
    """
    server = QuestionServer()
    with socket.socket(fileno=descriptor) as line:
        line.settimeout(IDLE_TIMEOUT_S)
        while True:
            try:
                asked = receive_question(line)
            except TimeoutError:
                return
            if asked is None:
                return
            threading.Thread(target=server.reply, args=asked, daemon=True).start()
