"""The looser of two sets of rules, and the strictest combination: an accepted rule holds against a set that loosens the
rule.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.config import Config
from remit.core.decision import Mode
from remit.core.intent import FINAL_STATUSES, Intent, identify
from remit.core.scope.apart import Apart, decide_apart
from remit.core.scope.path_patterns import Scope, list_signed_lines

MODES: tuple[Mode, ...] = ("observe", "warn", "enforce")


class RuleSet(Struct, frozen=True):
    """What judges calls: the mode in force, the settings, the intents, and the lines of `.intentignore`."""

    mode: Mode
    config: Config = Config()
    intents: tuple[Intent, ...] = ()
    barred: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def take_fields(self, found: "RuleSet", intent_id: str, names: Iterable[str]) -> "RuleSet":
        """Return this set with some fields of an intent copied from a second set."""
        new = next((intent for intent in found.intents if intent.id == intent_id), None)
        fields = {name: getattr(new, name) for name in names if name in Intent.__struct_fields__} if new else {}
        intents = tuple(replace(one, **fields) if one.id == intent_id else one for one in self.intents)
        return replace(self, intents=intents)

    def take_setting(self, found: "RuleSet", name: str) -> "RuleSet":
        return replace(self, config=replace_setting(self.config, name, read_setting(found.config, name)))


class Loosening(Struct, frozen=True):
    """A rule that a set loosens: `what` in fixed words and ids alone, `change` with the texts of both sets."""

    what: str
    change: str


def is_within(narrow: Sequence[str], wide: Sequence[str]) -> bool:
    """Return whether a scope provably lies within a second scope; False without a proof."""
    if tuple(narrow) == tuple(wide):
        return True
    lines = list_signed_lines(tuple(wide))
    if any(line.startswith("!") for _, line in lines):
        return False
    others = Scope(("**", *(f"!{line}" if included else line for included, line in lines)))
    return isinstance(decide_apart(Scope(tuple(narrow)), others), Apart)


def hold_stricter(accepted: RuleSet, found: RuleSet) -> tuple[RuleSet, tuple[Loosening, ...]]:
    """Return the strictest of both sets, and what `found` loosens. Rules that only `found` has hold as they are."""
    loosened: list[Loosening] = []
    held = found
    if MODES.index(found.mode) < MODES.index(accepted.mode):
        text = f"mode {accepted.mode} → {found.mode}"
        loosened.append(Loosening(text, text))
        held = replace(held, mode=accepted.mode)
    config = found.config
    for name, is_looser in LOOSER.items():
        old, new = read_setting(accepted.config, name), read_setting(config, name)
        if is_looser(old, new):
            kept = tuple(code for code in new if code in old) if name == "overrides" else old
            config = replace_setting(config, name, kept)
            loosened.append(Loosening(f"setting {name}", f"{name}: {old!r} → {new!r}"))
    if missing := tuple(text for text in accepted.config.redact.patterns if text not in config.redact.patterns):
        config = replace_setting(config, "redact.patterns", (*config.redact.patterns, *missing))
        loosened.append(Loosening("setting redact.patterns", f"redact.patterns: without {', '.join(missing)}"))
    held = replace(held, config=config)
    before = {name: intent for intent in accepted.intents for name in (identify(intent), intent.id)}
    intents: list[Intent] = []
    for intent in found.intents:
        old = before.get(intent.id) or before.get(identify(intent))
        if old is not None and intent.status not in FINAL_STATUSES:
            fields = dict(loosened_fields(old, intent))
            texts = {name: text for name, (_, text) in fields.items()}
            loosened += [Loosening(f"{name} of {intent.id}", f"{intent.id} {name}: {texts[name]}") for name in texts]
            intent = replace(intent, **{name: value for name, (value, _) in fields.items()})
        intents.append(intent)
    held = replace(held, intents=tuple(intents))
    if gone := [name for name in accepted.barred if name not in found.barred]:
        text = f".intentignore: no line bars {', '.join(gone)}"
        loosened.append(Loosening(text, text))
        held = replace(held, barred=(*found.barred, *gone))
    if not has_all_lines(found.patterns, accepted.patterns):
        added = tuple(line for line in found.patterns if line not in accepted.patterns and not line.startswith("!"))
        gone = [line for line in accepted.patterns if line not in found.patterns]
        loosened.append(Loosening("lines of .intentignore", f".intentignore: without {gone or 'the old order'}"))
        held = replace(held, patterns=(*accepted.patterns, *added))
    return held, tuple(loosened)


def has_all_lines(found: Sequence[str], accepted: Sequence[str]) -> bool:
    rest = iter(found)
    in_order = all(line in rest for line in accepted)
    return in_order and not any(line.startswith("!") and line not in accepted for line in found)


def loosened_fields(old: Intent, new: Intent) -> Iterator[tuple[str, tuple[Any, str]]]:
    if not is_within(new.owned_scope, old.owned_scope):
        yield "owned_scope", (old.owned_scope, f"{', '.join(old.owned_scope)} → {', '.join(new.owned_scope)}")
    if gone := tuple(rule for rule in old.rules if rule not in new.constraints):
        yield "constraints", ((*new.constraints, *gone), f"without {'; '.join(rule.text for rule in gone)}")
    checked = tuple(item for item in old.acceptance_criteria if item.verify and item not in new.acceptance_criteria)
    if checked:
        text = f"without {'; '.join(item.verify or '' for item in checked)}"
        yield "acceptance_criteria", ((*new.acceptance_criteria, *checked), text)
    if new.companions and not old.companions:
        yield "companions", (False, "false → true")
    if new.network == "allow" and old.network == "none":
        yield "network", ("none", "none → allow")


def is_higher_limit(old: Any, new: Any) -> bool:
    """Return whether a limit is higher; None is none at all."""
    return old is not None and (new is None or new > old)


LOOSER: dict[str, Callable[[Any, Any], bool]] = {
    "overrides": lambda old, new: not set(new) <= set(old),
    "approvals.threshold": is_higher_limit,
    "approvals.grant_hours": is_higher_limit,
    "session.idle_minutes": is_higher_limit,
    "session.detour_minutes": lambda old, new: new < old,
    "containment.rewrite": lambda old, new: old == "auto" and new == "off",
    "containment.ssh_agent": lambda old, new: new and not old,
    "containment.time_limit_s": lambda old, new: is_higher_limit(old or None, new or None),
    "containment.size_limit_mib": is_higher_limit,
    "run.max_turns": is_higher_limit,
    "run.max_cost_usd": is_higher_limit,
}
"""When a setting is looser than it was. Settings that need `remit trust` are not here: they have no effect before."""


def read_setting(config: Config, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def replace_setting(config: Config, name: str, value: Any) -> Config:
    table, _, key = name.rpartition(".")
    return replace(config, **{table: replace(getattr(config, table), **{key: value})} if table else {key: value})
