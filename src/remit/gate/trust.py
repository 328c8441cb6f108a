"""Trust: commands of a repository, and the person's decisions on the machine about them. All but the texts raise
OSError, and GitError where the repository has no name yet.
"""

from datetime import UTC, datetime
from pathlib import Path

from msgspec import json

from remit.core.call import SessionKey
from remit.core.config import NamedHook, TrustItem, make_grant_item
from remit.core.decision import ProjectGrant
from remit.core.diff.contents import sha256
from remit.core.record import format_utc
from remit.core.untrusted_input import sanitise_line
from remit.gate.governing import Rules
from remit.gate.records.recorder import Recorder
from remit.gate.state.workspace_state import State
from remit.workspace.place.config import Trust, read_trust, write_trust

NOTICE_FACT = "untrusted_told"  # fact that holds which untrusted commands were reported to which sessions
SETTING_KINDS = (
    "generated",
    "data",
    "show",
    "push",
    "grant",
)  # settings that have no effect without trust; all others are commands
MAX_NOTICES = 50
MAX_NAMED = 5


def trusted_digests(recorder: Recorder) -> frozenset[str]:
    found = read_trust(recorder.environment.home, recorder.repository)
    return found.digests if found is not None else frozenset()


def trusted_hooks(rules: Rules, recorder: Recorder) -> tuple[NamedHook, ...]:
    if not rules.hooks:
        return ()
    digests = trusted_digests(recorder)
    pairs = zip(rules.hooks, rules.repository_commands, strict=False)
    return tuple(hook for hook, command in pairs if command.digest in digests)


def trusted_patterns(rules: Rules, recorder: Recorder) -> tuple[str, ...]:
    settings = rules.config.containment
    return settings.generated if are_trusted(settings.generated_items, recorder) else ()


def trusted_places(rules: Rules, recorder: Recorder) -> tuple[Path, ...]:
    """Return the secret places that a person lets contained commands see."""
    settings, home = rules.config.containment, recorder.environment.home
    if not are_trusted(settings.show_items, recorder):
        return ()
    return tuple(home / place.removeprefix("~/") for place in settings.show)


def trusted_grants(rules: Rules, recorder: Recorder) -> tuple[ProjectGrant, ...]:
    """Return the grants of `remit.toml` that a person on this machine gave or trusts: a clone brings a stranger's."""
    digests = trusted_digests(recorder)
    return tuple(grant for grant in rules.config.grants if make_grant_item(grant).digest in digests)


def trust_grant(recorder: Recorder, root: Path, grant: ProjectGrant) -> None:
    """Trust a grant that a person has just given here, beside what is trusted already. Raises OSError, GitError."""
    home, item = recorder.environment.home, make_grant_item(grant)
    known = read_trust(home, recorder.repository)
    at = format_utc(datetime.fromtimestamp(recorder.environment.clock.now(), UTC), "seconds")
    write_trust(home, Trust(recorder.repository, str(root), at, (*(known.commands if known else ()), item)))


def are_trusted(items: tuple[TrustItem, ...], recorder: Recorder) -> bool:
    """Return True if there are items, and a person on this machine trusts each of them."""
    return bool(items) and {item.digest for item in items} <= trusted_digests(recorder)


def find_untrusted(rules: Rules, recorder: Recorder) -> tuple[TrustItem, ...]:
    digests = trusted_digests(recorder) if rules.repository_commands else ()
    return tuple(command for command in rules.repository_commands if command.digest not in digests)


def describe_untrusted(found: tuple[TrustItem, ...]) -> str:
    commands = exclude_settings(found)
    parts = [f"{len(commands)} commands of this repository are not trusted, and do not run"] if commands else []
    grants = sum(one.kind == "grant" for one in found)
    if grants:
        parts.append(f"{grants} [[grants]] of remit.toml are not trusted, and waive nothing")
    for one in found:
        if one.kind in SETTING_KINDS and one.kind != "grant":
            name = sanitise_line(one.name)
            parts.append(f"{name} is not trusted, and has no effect ({sanitise_line(one.text, 200)})")
    return "; ".join(parts)


def exclude_settings(found: tuple[TrustItem, ...]) -> tuple[TrustItem, ...]:
    return tuple(one for one in found if one.kind not in SETTING_KINDS)


def untrusted_notice(found: tuple[TrustItem, ...]) -> str:
    """Return the message to a session about untrusted commands, or an empty text."""
    found = exclude_settings(found)
    if not found:
        return ""
    names = dict.fromkeys(f"{sanitise_line(command.name, 80)} ({command.kind})" for command in found[:MAX_NAMED])
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return (
        "Remit: commands of this repository DO NOT RUN, since nobody on this machine has trusted them: "
        f"{', '.join(names)}{more}. "
        "Tell the person: `remit trust`, in a terminal, shows them and asks. Until then no hook looks at your calls, "
        "and a criterion with such a command counts as not run."
    )


def untrusted_notice_once(found: tuple[TrustItem, ...], state: State, session: SessionKey) -> str:
    """Return the notice unless the session was told of exactly these commands. Raises StateError."""
    notice = untrusted_notice(found)
    told = json.decode(state.read_fact(NOTICE_FACT) or "[]", type=list[str]) if notice else []
    mine = f"{sha256(''.join(command.digest for command in found).encode())[:16]} {session.session_id}"
    if not notice or mine in told:
        return ""
    state.put_fact(NOTICE_FACT, json.encode([*told[-MAX_NOTICES:], mine]).decode())
    return notice
