"""What an agent's own permission rules say about a shell command, whichever agent it is."""

import re
from typing import Literal, TypeAlias

from msgspec import Struct

RuleEffect: TypeAlias = Literal["allow", "ask", "deny"]
PermissionEffect: TypeAlias = Literal["allow", "ask", "deny", "agent", "as written"]
"""`allow`, `ask`, `deny`: the effect of the rules. `agent`: no rule decides, and what the agent does about a command
without a rule does not depend on its text. `as written`: the agent has to see the command as it was written.
"""


ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
SHELL_WORDS = frozenset(["if", "then", "else", "elif", "do", "while", "until", "!", "{", "coproc"])
"""Words of the shell that stand before a command."""

STARTER_PROGRAMS = frozenset(
    "builtin command doas env exec ionice nice nohup setsid stdbuf sudo time timeout xargs".split()  # noqa: SIM905
)
"""Programs that start another, with options and operands of their own before it."""

MAX_OPERANDS = 8
"""Words behind such a program of which each may be the one that it starts: its options may take values."""

MAX_INVOCATIONS = 64


class CommandPart(Struct, frozen=True):
    """One simple command: its text as written, and its words without quotes. `literal`: its text fixes them. `reads`:
    it is proved to only read.
    """

    text: str
    words: tuple[str, ...] = ()
    literal: bool = False
    reads: bool = False

    @property
    def invocations(self) -> tuple[tuple[str, ...], ...]:
        """The words of each program that a rule to ask or deny may mean: this one, and those that it may start."""
        words, found = self.words, [self.words]
        while words:
            if ASSIGNMENT.match(words[0]) or words[0] in SHELL_WORDS:
                words = words[1:]
                found.append(words)
            elif words[0].rsplit("/", 1)[-1] in STARTER_PROGRAMS and len(found) < MAX_INVOCATIONS:
                found += [words[at:] for at in range(2, min(len(words), MAX_OPERANDS))]
                words = words[1:]
                found.append(words)
            elif words[0].startswith("-") and len(found) > 1 and len(found) < MAX_INVOCATIONS:
                words = words[1:]
                found.append(words)
            else:
                break
        return tuple(dict.fromkeys(each for each in found if each))

    @property
    def spellings(self) -> set[str]:
        """The texts that a rule which asks or denies may mean."""
        return {self.text, *map(" ".join, self.invocations)}


class ShellCommand(Struct, frozen=True):
    """A command in its parts, those inside substitutions too.

    `plain`: the parts are all of it, joined by `&&`, `||`, `;`, `|` or line ends. `redirects`: one of them redirects,
    and be it to `/dev/null`.
    """

    text: str
    parts: tuple[CommandPart, ...] = ()
    plain: bool = False
    redirects: bool = False


class RuleFile(Struct, frozen=True):
    """A file that may hold rules, as it was read. `scope` says whose it is; `nearby`: of a folder that need not be the
    session's project, so that what it allows does not count.
    """

    path: str
    scope: Literal["managed", "user", "project", "nearby"]
    content: bytes


class OwnRule(Struct, frozen=True):
    """One rule of a person's, as they wrote it. A larger `rank` wins where an agent's rules have an order."""

    effect: RuleEffect
    text: str
    path: str
    rank: float = 0.0


class OwnRules(Struct, frozen=True):
    """The rules of one agent, and the files of them that could not be read."""

    rules: tuple[OwnRule, ...] = ()
    unreadable: tuple[str, ...] = ()


class Permission(Struct, frozen=True):
    """The answer of an agent's own rules. `rule` is the one that decided, where one did."""

    effect: PermissionEffect
    rule: OwnRule | None = None

    @property
    def reason(self) -> str:
        """The rule and its file, for a message."""
        return f"your rule {self.rule.text} in {self.rule.path}" if self.rule is not None else "no rule of yours"
