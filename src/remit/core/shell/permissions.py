"""Permission rules of agents applied to shell commands, independent of the agent."""

import re
from typing import Literal, TypeAlias

from msgspec import Struct

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
    """A simple command: text as written, and words without quotes. `literal`: the text fixes the words. `reads`: proved
    read-only.
    """

    text: str
    words: tuple[str, ...] = ()
    literal: bool = False
    reads: bool = False

    @property
    def invocations(self) -> tuple[tuple[str, ...], ...]:
        """Return the words of each program that an ask or deny rule may mean: this program, and programs it may
        start.
        """
        words, invocations = self.words, [self.words]
        while words:
            if ASSIGNMENT.match(words[0]) or words[0] in SHELL_WORDS:
                words = words[1:]
                invocations.append(words)
            elif words[0].rsplit("/", 1)[-1] in STARTER_PROGRAMS and len(invocations) < MAX_INVOCATIONS:
                invocations += [words[at:] for at in range(2, min(len(words), MAX_OPERANDS))]
                words = words[1:]
                invocations.append(words)
            elif words[0].startswith("-") and len(invocations) > 1 and len(invocations) < MAX_INVOCATIONS:
                words = words[1:]
                invocations.append(words)
            else:
                break
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
    """A rules file and its content. `scope` names the owner; `nearby` files lie in a folder that may not be the
    session's project, so their allow rules do not count.
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
