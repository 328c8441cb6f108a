"""What a repository would have Remit run, and what of it a person on this machine said yes to."""

from msgspec import json

from remit.core.call import SessionKey
from remit.core.contents import sha256
from remit.core.hooks import Brought, NamedHook
from remit.core.text import shown
from remit.gate.governing import Governing
from remit.gate.recorder import Recorder
from remit.gate.state import State
from remit.workspace.trust import read_trust

TOLD = "untrusted_told"
"""The fact that holds which commands were told of as untrusted, and to which sessions."""

TOLD_MOST = 50
NAMED_MOST = 5


def trusted(recorder: Recorder) -> frozenset[str]:
    """The digests of what may run. Raises OSError, GitError where the repository has no name yet."""
    found = read_trust(recorder.environment.home, recorder.repository)
    return found.digests if found is not None else frozenset()


def trusted_hooks(rules: Governing, recorder: Recorder) -> tuple[NamedHook, ...]:
    """The hooks that may run."""
    if not rules.hooks:
        return ()
    digests = trusted(recorder)
    pairs = zip(rules.hooks, rules.brought, strict=False)
    return tuple(hook for hook, brought in pairs if brought.digest in digests)


def trusted_patterns(rules: Governing, recorder: Recorder) -> tuple[str, ...]:
    """The patterns of generated files that count. Raises OSError, GitError."""
    asked = rules.config.containment.brought
    return rules.config.containment.generated if asked and asked[0].digest in trusted(recorder) else ()


def untrusted(rules: Governing, recorder: Recorder) -> tuple[Brought, ...]:
    """What does not run, for want of a person's yes."""
    if not rules.brought:
        return ()
    digests = trusted(recorder)
    return tuple(command for command in rules.brought if command.digest not in digests)


def untrusted_line(found: tuple[Brought, ...]) -> str:
    """What a person is told of it, on one line; empty where all is trusted."""
    commands, patterns = commands_of(found), [one for one in found if one.kind == "generated"]
    said = [f"{len(commands)} commands of this repository are not trusted, and do not run"] if commands else []
    said += [f"{shown(one.name)} is not trusted, and has no effect ({shown(one.text, 200)})" for one in patterns]
    return "; ".join(said)


def commands_of(found: tuple[Brought, ...]) -> tuple[Brought, ...]:
    """Those of these that would run."""
    return tuple(one for one in found if one.kind != "generated")


def notice(found: tuple[Brought, ...]) -> str:
    """What a session is told of commands that do not run; nothing where there are none."""
    found = commands_of(found)
    if not found:
        return ""
    names = ", ".join(dict.fromkeys(f"{shown(command.name, 80)} ({command.kind})" for command in found[:NAMED_MOST]))
    more = f" and {len(found) - NAMED_MOST} more" if len(found) > NAMED_MOST else ""
    return (
        f"Remit: commands of this repository DO NOT RUN, since nobody on this machine has trusted them: {names}{more}. "
        "Tell the person: `remit trust`, in a terminal, shows them and asks. Until then no hook looks at your calls, "
        "and a criterion with such a command counts as not run."
    )


def notice_once(found: tuple[Brought, ...], state: State, session: SessionKey) -> str:
    """The notice, where this session was not told of exactly these commands. Raises StateError."""
    if not commands_of(found):
        return ""
    now = sha256("".join(command.digest for command in found).encode())[:16]
    told = json.decode(state.fact(TOLD) or "[]", type=list[str])
    mine = f"{now} {session.session_id}"
    if mine in told:
        return ""
    state.put_fact(TOLD, json.encode([*told[-TOLD_MOST:], mine]).decode())
    return notice(found)
