"""Trust: commands of a repository, and the person's decisions on the machine about them."""

from typing import Protocol

from msgspec import json

from remit.core.call import SessionKey
from remit.core.diff.contents import sha256
from remit.core.display_text import sanitise_line
from remit.core.team_hooks import NamedHook, TrustItem
from remit.gate.environment import Environment
from remit.gate.rules.load import Rules
from remit.gate.state.workspace_state import State
from remit.workspace.place.trusted_commands import read_trust

NOTICE_FACT = "untrusted_told"
"""Fact that holds which untrusted commands were reported to which sessions."""

MAX_NOTICES = 50
MAX_NAMED = 5


class NamedRepository(Protocol):
    """A repository with a lazily computed name, like a `Recorder`."""

    @property
    def environment(self) -> Environment: ...

    @property
    def repository(self) -> str: ...


def trusted_digests(repository: NamedRepository) -> frozenset[str]:
    """Return the digests of trusted commands. Raises OSError, GitError where the repository has no name yet."""
    found = read_trust(repository.environment.home, repository.repository)
    return found.digests if found is not None else frozenset()


def trusted_hooks(rules: Rules, repository: NamedRepository) -> tuple[NamedHook, ...]:
    if not rules.hooks:
        return ()
    digests = trusted_digests(repository)
    pairs = zip(rules.hooks, rules.repository_commands, strict=False)
    return tuple(hook for hook, brought in pairs if brought.digest in digests)


def trusted_patterns(rules: Rules, repository: NamedRepository) -> tuple[str, ...]:
    """Return the trusted patterns of generated files. Raises OSError, GitError."""
    asked = rules.config.containment.trust_items
    return rules.config.containment.generated if asked and asked[0].digest in trusted_digests(repository) else ()


def find_untrusted(rules: Rules, repository: NamedRepository) -> tuple[TrustItem, ...]:
    if not rules.repository_commands:
        return ()
    digests = trusted_digests(repository)
    return tuple(command for command in rules.repository_commands if command.digest not in digests)


def describe_untrusted(found: tuple[TrustItem, ...]) -> str:
    """Return a line about untrusted commands for a person; empty if all are trusted."""
    commands, patterns = exclude_patterns(found), [one for one in found if one.kind == "generated"]
    said = [f"{len(commands)} commands of this repository are not trusted, and do not run"] if commands else []
    said += [
        f"{sanitise_line(one.name)} is not trusted, and has no effect ({sanitise_line(one.text, 200)})"
        for one in patterns
    ]
    return "; ".join(said)


def exclude_patterns(found: tuple[TrustItem, ...]) -> tuple[TrustItem, ...]:
    return tuple(one for one in found if one.kind != "generated")


def untrusted_notice(found: tuple[TrustItem, ...]) -> str:
    """Return the message to a session about untrusted commands, or an empty text."""
    found = exclude_patterns(found)
    if not found:
        return ""
    names = ", ".join(
        dict.fromkeys(f"{sanitise_line(command.name, 80)} ({command.kind})" for command in found[:MAX_NAMED])
    )
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return (
        f"Remit: commands of this repository DO NOT RUN, since nobody on this machine has trusted them: {names}{more}. "
        "Tell the person: `remit trust`, in a terminal, shows them and asks. Until then no hook looks at your calls, "
        "and a criterion with such a command counts as not run."
    )


def untrusted_notice_once(found: tuple[TrustItem, ...], state: State, session: SessionKey) -> str:
    """Return the notice unless the session was told of exactly these commands. Raises StateError."""
    if not exclude_patterns(found):
        return ""
    now = sha256("".join(command.digest for command in found).encode())[:16]
    told = json.decode(state.read_fact(NOTICE_FACT) or "[]", type=list[str])
    mine = f"{now} {session.session_id}"
    if mine in told:
        return ""
    state.put_fact(NOTICE_FACT, json.encode([*told[-MAX_NOTICES:], mine]).decode())
    return untrusted_notice(found)
