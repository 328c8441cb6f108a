"""Shell commands: the words, operators and here-documents of a text, agents' permission rules for commands, and the V4A
patches in them: `apply_patch <<'EOF'` and `apply_patch '…'`.

The scanner only cuts the text; `policy.commands` proves the effects of commands.
Source: POSIX.1-2024, Shell Command Language §2.2, §2.3, §2.7; bash(1) 5.2;
openai/codex, codex-rs/apply-patch/src/invocation.rs, read 2026-11.
"""

import posixpath
import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.formats import Patch, PatchError, parse_patch

MAX_DEPTH = 25
"""Expansions within expansions; a deeper text is unreadable."""
BLANKS = " \t"
ENDS_WORD = frozenset(" \t\n;&|()<>")
GLOB = frozenset("*?[")
REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>&|>>|>\||<|>)|(&>>|&>)")
OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|[;&|()]")
QUOTED = re.compile(r"'([^']*)'")
ANSI_C = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
BACKQUOTED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
FEEDS = frozenset({"<<<", "<<-", "<<", "<>", "<&", "<"})


class UnreadableShell(ValueError):
    """A text with an open quote or substitution, or with too deep nesting."""


class ShellWord(Struct, frozen=True):
    """A word without quotes. The shell replaces a word that is not `literal`."""

    text: str
    literal: bool = True


class HereDocument(Struct, frozen=True):
    """The text of `<<`. `quoted`: the shell expands nothing. `closed`: the end was found."""

    body: str
    quoted: bool
    closed: bool


class SimpleCommand(Struct, frozen=True):
    """A program with its words. `before` is the operator in front of the command, empty for the first command.

    `depth` counts the enclosing substitutions. `fed`: the standard input is redirected.
    """

    words: tuple[ShellWord, ...]
    before: str = ""
    depth: int = 0
    fed: bool = False
    documents: tuple[HereDocument, ...] = ()


class _OpenCommand:
    """A command without its end yet. `pending` are delimiter, quoting and removal of tabs of each here-document."""

    def __init__(self, before: str) -> None:
        self.before, self.fed = before, False
        self.words: list[ShellWord] = []
        self.documents: list[HereDocument] = []
        self.pending: list[tuple[str, bool, bool]] = []


def parse_simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Return the commands of a text in order, including those in substitutions. Raises only UnreadableShell."""
    return tuple(_ShellScanner(text).scan())


class _ShellScanner:
    """One pass over the text; `at` only moves forward."""

    def __init__(self, text: str, at: int = 0, depth: int = 0) -> None:
        self.text, self.at, self.depth = text, at, depth
        self.found: list[SimpleCommand] = []
        self.open = _OpenCommand("")
        self.unread: list[_OpenCommand] = []
        self.done: list[_OpenCommand] = []
        self.level = self.nesting = 0

    def scan(self, *, substitution: bool = False) -> list[SimpleCommand]:
        while self.at < len(self.text):
            if substitution and self.text[self.at] == ")" and self.level == 0:
                break
            self.scan_step()
        else:
            if substitution:
                raise UnreadableShell("a substitution is not closed")
            self.read_documents()
        self.finish_command(")" if substitution else "")
        self.at += substitution
        own = [SimpleCommand(tuple(c.words), c.before, self.depth, c.fed, tuple(c.documents)) for c in self.done]
        return own + self.found

    def scan_step(self) -> None:
        character = self.text[self.at]
        if character in BLANKS:
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.at += 2
        elif character == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif character == "\n":
            self.at += 1
            self.read_documents()
            self.finish_command("\n")
        elif not self.open.words and self.text.startswith("((", self.at):
            self.skip_arithmetic(2)
        elif self.scan_redirection():
            pass
        elif operator := OPERATOR.match(self.text, self.at):
            self.at = operator.end()
            self.level = max(0, self.level + {"(": 1, ")": -1}.get(operator[0], 0))
            self.finish_command(operator[0])
        else:
            self.open.words.append(self.scan_word()[0])

    def scan_redirection(self) -> bool:
        found = REDIRECTION.match(self.text, self.at)
        if found is None or self.text.startswith(("<(", ">("), self.at):
            return False
        self.at = found.end()
        while self.at < len(self.text) and self.text[self.at] in BLANKS:
            self.at += 1
        operator = found[1] or found[2]
        word, quoted = self.scan_word()
        self.open.fed |= operator in FEEDS
        if operator in ("<<", "<<-"):
            self.open.pending.append((word.text, quoted, operator == "<<-"))
            if self.open not in self.unread:
                self.unread.append(self.open)
        return True

    def finish_command(self, operator: str) -> None:
        if self.open.words or self.open.fed:
            self.done.append(self.open)
        elif operator == "\n" and self.open.before:
            return
        self.open = _OpenCommand(operator)

    def read_documents(self) -> None:
        for command in self.unread:
            for delimiter, quoted, tabs in command.pending:
                lines: list[str] = []
                closed = False
                while self.at < len(self.text) and not closed:
                    end = self.text.find("\n", self.at)
                    stop = len(self.text) if end < 0 else end
                    line, self.at = self.text[self.at : stop], min(stop + 1, len(self.text))
                    lines.append(line.lstrip("\t") if tabs else line)
                    closed = lines[-1] == delimiter
                command.documents.append(HereDocument("\n".join(lines[: len(lines) - closed]), quoted, closed))
            command.pending = []
        self.unread = []

    def scan_word(self) -> tuple[ShellWord, bool]:
        pieces: list[str] = []
        literal, quoted = not self.text.startswith("~", self.at), False
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in ENDS_WORD and not self.text.startswith(("<(", ">("), self.at):
                break
            piece, fixed = self.scan_piece(character)
            quoted |= character in "'\"\\" or piece.startswith("$'")
            literal &= fixed
            pieces.append(piece)
        text = "".join(pieces)
        braces = "{" in text and ("," in text or ".." in text) and not quoted
        return ShellWord(text, literal and not braces), quoted

    def scan_piece(self, character: str) -> tuple[str, bool]:
        match character:
            case "'":
                return self.take(QUOTED, "a '")[1], True
            case '"':
                return self.scan_double_quoted()
            case "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                self.at += 2
                return ("" if escaped == "\n" else escaped), True
            case "$" | "`" | "<" | ">":
                return self.scan_expansion(), False
            case _:
                self.at += 1
                return character, character not in GLOB

    def take(self, pattern: re.Pattern[str], opening: str) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise UnreadableShell(f"{opening} is not closed")
        self.at = found.end()
        return found

    def scan_double_quoted(self) -> tuple[str, bool]:
        pieces: list[str] = []
        fixed = True
        self.at += 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return "".join(pieces), fixed
            if character == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                pieces.append({"\n": ""}.get(after, after) if after in '$`"\\\n' else "\\" + after)
                self.at += 2
            elif character in "$`":
                pieces.append(self.scan_expansion(in_quotes=True))
                fixed = False
            else:
                pieces.append(character)
                self.at += 1
        raise UnreadableShell('a " is not closed')

    def scan_expansion(self, *, in_quotes: bool = False) -> str:
        start, text = self.at, self.text
        self.nesting += 1
        depth = self.depth + self.nesting
        if depth > MAX_DEPTH:
            raise UnreadableShell(f"expansions nest deeper than {MAX_DEPTH}")
        if text.startswith("$((", start):
            self.skip_arithmetic(3)
        elif text.startswith(("$(", "<(", ">("), start):
            inner = _ShellScanner(text, start + 2, depth)
            self.found += inner.scan(substitution=True)
            self.at = inner.at
        elif text.startswith("${", start):
            self.skip_braces()
        elif text.startswith("$'", start) and not in_quotes:
            self.take(ANSI_C, "a $'")
        elif text[start] == "`":
            inner_text = re.sub(r"\\([\\$`])", r"\1", self.take(BACKQUOTED, "a `")[1])
            self.found += _ShellScanner(inner_text, 0, depth).scan()
        else:
            self.at += 1
        self.nesting -= 1
        return text[start : self.at]

    def skip_arithmetic(self, opening: int) -> None:
        depth, at = 2, self.at + opening
        while at < len(self.text) and depth:
            depth += {"(": 1, ")": -1}.get(self.text[at], 0)
            at += 1
        if depth:
            raise UnreadableShell("an arithmetic expression is not closed")
        self.at = at

    def skip_braces(self) -> None:
        self.at += 2
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in "}\\":
                self.at += 1 if character == "}" else 2
                if character == "}":
                    return
            elif character in "'\"$`":
                self.scan_piece(character)
            else:
                self.at += 1
        raise UnreadableShell("a ${ is not closed")


# --- permission rules of agents ---------------------------------------------------------------------------

RuleEffect: TypeAlias = Literal["allow", "ask", "deny"]
PermissionEffect: TypeAlias = Literal["allow", "ask", "deny", "agent", "as written"]
"""Result of an agent's rules. `agent`: no rule decides, and the agent's default does not depend on the text. `as
written`: the agent must see the original command.
"""
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
SHELL_WORDS = frozenset(["if", "then", "else", "elif", "do", "while", "until", "!", "{", "coproc"])
"""Reserved words before a command."""
STARTER_PROGRAMS = frozenset(
    "builtin command doas env exec ionice nice nohup setsid stdbuf sudo time timeout xargs".split()  # noqa: SIM905
)
"""Programs that start a program given among their operands."""
MAX_OPERANDS = 8
"""Operands after a starter program that are considered as the started program: options may take values."""
MAX_INVOCATIONS = 64


class CommandPart(Struct, frozen=True):
    """A simple command: text as written, and words without quotes.

    `literal`: the text fixes the words. `reads`: proved read-only.
    """

    text: str
    words: tuple[str, ...] = ()
    literal: bool = False
    reads: bool = False

    @property
    def invocations(self) -> tuple[tuple[str, ...], ...]:
        """Return the words of each program possibly meant by an ask or deny rule: this program, and programs started by
        it.
        """
        words, invocations = self.words, [self.words]
        while words:
            if not ASSIGNMENT.match(words[0]) and words[0] not in SHELL_WORDS:
                is_starter = words[0].rsplit("/", 1)[-1] in STARTER_PROGRAMS
                is_option = words[0].startswith("-") and len(invocations) > 1
                if len(invocations) >= MAX_INVOCATIONS or not (is_starter or is_option):
                    break
                if is_starter:
                    invocations += [words[at:] for at in range(2, min(len(words), MAX_OPERANDS))]
            words = words[1:]
            invocations.append(words)
        return tuple(dict.fromkeys(invocation for invocation in invocations if invocation))

    @property
    def spellings(self) -> set[str]:
        return {self.text, *map(" ".join, self.invocations)}


class ShellCommand(Struct, frozen=True):
    """A command split into parts, those in substitutions included.

    `plain`: the parts are the whole command, joined by `&&`, `||`, `;`, `|` or line ends. `redirects`: a part
    redirects, even to `/dev/null`.
    """

    text: str
    parts: tuple[CommandPart, ...] = ()
    plain: bool = False
    redirects: bool = False


class RuleFile(Struct, frozen=True):
    """A rules file and its content. `scope` names the owner; `nearby` files lie in a folder possibly outside the
    session's project, hence their allow rules do not count.
    """

    path: str
    scope: Literal["managed", "user", "project", "nearby"]
    content: bytes


class OwnRule(Struct, frozen=True):
    """A person's rule as written. A larger `rank` wins for agents with ordered rules."""

    effect: RuleEffect
    text: str
    path: str
    rank: float = 0.0


class OwnRules(Struct, frozen=True):
    """Rules of an agent, and its unreadable rules files."""

    rules: tuple[OwnRule, ...] = ()
    unreadable: tuple[str, ...] = ()


class Permission(Struct, frozen=True):
    """The result of an agent's own rules. `rule` is the deciding rule, if any."""

    effect: PermissionEffect
    rule: OwnRule | None = None

    @property
    def reason(self) -> str:
        return f"your rule {self.rule.text} in {self.rule.path}" if self.rule is not None else "no rule of yours"


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
