"""What every tool under test has to offer, and what it is told: the hooks of agents, as these send them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .lines import Claim


@dataclass(frozen=True)
class Session:
    """One conversation of an agent; a sub-agent shares the id of its parent's."""

    agent: str
    id: str
    intent: str
    subagent: str = ""


class Refused(RuntimeError):
    """A tool did not let a call pass that the scenario needs: the scenario says nothing then."""


class Tool(Protocol):
    """A tool that attributes lines, in one repository."""

    name: str

    def install(self, root: Path, home: Path, intents: Sequence[str]) -> None:
        """Be there in that repository, as a person would have set it up."""
        ...

    def hook(self, session: Session, event: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take an event of an agent, in that agent's own form; return the arguments that the tool gives the call in the
        place of its own, if any. Raises Refused.
        """
        ...

    def select(self, session: Session) -> None:
        """The session takes up its intent; nothing for tools that know none. Raises Refused."""
        ...

    def message(self, subject: str, agents: Sequence[str]) -> str:
        """The message of a commit in which these agents had a hand."""
        ...

    def publish(self, root: Path) -> Sequence[str]:
        """Make ready what travels with the repository; the refs that somebody else has to fetch."""
        ...

    def take_in(self, root: Path) -> None:
        """Take in what others published, in a clone of somebody who never worked with an agent there."""
        ...

    def blame(self, root: Path, path: str) -> list[Claim]:
        """What is claimed of each line of a file in the work tree."""
        ...
