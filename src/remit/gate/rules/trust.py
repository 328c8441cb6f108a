"""What a repository would have Remit run, and what of it a person on this machine said yes to."""

from msgspec import json

from remit.core.call import SessionKey
from remit.core.diff.contents import sha256
from remit.core.display_text import sanitise_line
from remit.core.team_hooks import NamedHook, TrustItem
from remit.gate.records.recorder import Recorder
from remit.gate.rules.load import Rules
from remit.gate.state.workspace_state import State
from remit.workspace.place.trusted_commands import read_trust

NOTICE_FACT = "untrusted_told"
"""The fact that holds which commands were told of as untrusted, and to which sessions."""

MAX_NOTICES = 50
MAX_NAMED = 5


def trusted_digests(recorder: Recorder) -> frozenset[str]:
    """The digests of what may run. Raises OSError, GitError where the repository has no name yet."""
    found = read_trust(recorder.environment.home, recorder.repository)
    return found.digests if found is not None else frozenset()


def trusted_hooks(rules: Rules, recorder: Recorder) -> tuple[NamedHook, ...]:
    """The hooks that may run."""
    if not rules.hooks:
        return ()
    digests = trusted_digests(recorder)
    pairs = zip(rules.hooks, rules.repository_commands, strict=False)
    return tuple(hook for hook, brought in pairs if brought.digest in digests)


def trusted_patterns(rules: Rules, recorder: Recorder) -> tuple[str, ...]:
    """The patterns of generated files that count. Raises OSError, GitError."""
    asked = rules.config.containment.trust_items
    return rules.config.containment.generated if asked and asked[0].digest in trusted_digests(recorder) else ()


def find_untrusted(rules: Rules, recorder: Recorder) -> tuple[TrustItem, ...]:
    """What does not run, for want of a person's yes."""
    if not rules.repository_commands:
        return ()
    digests = trusted_digests(recorder)
    return tuple(command for command in rules.repository_commands if command.digest not in digests)


def describe_untrusted(found: tuple[TrustItem, ...]) -> str:
    """What a person is told of it, on one line; empty where all is trusted."""
    commands, patterns = exclude_patterns(found), [one for one in found if one.kind == "generated"]
    said = [f"{len(commands)} commands of this repository are not trusted, and do not run"] if commands else []
    said += [
        f"{sanitise_line(one.name)} is not trusted, and has no effect ({sanitise_line(one.text, 200)})"
        for one in patterns
    ]
    return "; ".join(said)


def exclude_patterns(found: tuple[TrustItem, ...]) -> tuple[TrustItem, ...]:
    """Those of these that would run."""
    return tuple(one for one in found if one.kind != "generated")


def untrusted_notice(found: tuple[TrustItem, ...]) -> str:
    """What a session is told of commands that do not run; nothing where there are none."""
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
    """The notice, where this session was not told of exactly these commands. Raises StateError."""
    if not exclude_patterns(found):
        return ""
    now = sha256("".join(command.digest for command in found).encode())[:16]
    told = json.decode(state.read_fact(NOTICE_FACT) or "[]", type=list[str])
    mine = f"{now} {session.session_id}"
    if mine in told:
        return ""
    state.put_fact(NOTICE_FACT, json.encode([*told[-MAX_NOTICES:], mine]).decode())
    return untrusted_notice(found)
