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
STARTERS = {"env": 0, "nohup": 0, "time": 0, "command": 0, "exec": 0, "nice": 0, "stdbuf": 0, "timeout": 1, "xargs": 0}
"""Programs that start another, with the operands of their own before it."""

VALUED = frozenset({"-n", "-k", "-s", "-u", "-I", "-L", "-P"})
"""Options of theirs that take the next word."""


class CommandPart(Struct, frozen=True):
    """One simple command: its text as written, and its words without quotes. `literal`: its text fixes them. `reads`:
    it is proved to only read.
    """

    text: str
    words: tuple[str, ...] = ()
    literal: bool = False
    reads: bool = False

    @property
    def bare_words(self) -> tuple[str, ...]:
        """The words of the program, without variables before it and without programs that only start another."""
        words = self.words
        while words and (skipped := leading(words)):
            words = words[skipped:]
        return words

    @property
    def spellings(self) -> set[str]:
        """The texts that a rule which asks or denies may mean."""
        return {self.text, " ".join(self.words), " ".join(self.bare_words)}


def leading(words: tuple[str, ...]) -> int:
    """Count the words before the program that they start in the end; 0 where the first is that program."""
    if ASSIGNMENT.match(words[0]):
        return 1
    operands = STARTERS.get(words[0].rsplit("/", 1)[-1])
    if operands is None:
        return 0
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in VALUED else 1
    return at + operands


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
