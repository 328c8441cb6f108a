"""Checks on the files that a call would change: what governs, what lies outside, ignored, unowned, leased or stale."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding, Target
from remit.core.intent import Intent
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line

NARROW_RULE = "narrow"
NO_FILE = (".git/**",)
"""What a session is narrowed to that changes no file: no scope matches it, and no patterns at all would hold nobody."""


def check_protected(call: ToolCall, facts: Facts) -> Finding | None:
    """Find PROTECTED_PATH for Remit's own files, agents' hook settings and git's internals: agents must not change what
    governs them.
    """
    target = next((t for t in facts.targets if t.protected), None)
    if target is None:
        return None
    protected = f"{sanitise_line(target.path or target.resolved)} is protected: {target.protected}"
    message = f"{protected}. Agents change it only through Remit's own tools."
    return Finding("protected", "PROTECTED_PATH", message, path=str(target.path or target.raw))


def check_outside(call: ToolCall, facts: Facts) -> Finding | None:
    """Find OUTSIDE_WORKSPACE if a path, links followed, leaves the workspace, outside of which an intent owns nothing;
    ask if another name of the file may.
    """
    target = next((t for t in facts.targets if t.path is None and not t.tolerated and not t.protected), None)
    if target is not None:
        led = f" (it leads to {sanitise_line(target.resolved)})" if target.resolved != target.raw else ""
        hint = f", or in the temporary folder {sanitise_line(facts.temporary)}" if facts.temporary else ""
        message = f"{sanitise_line(target.raw)}{led} is outside the workspace. Choose a path inside it{hint}."
        return Finding("outside", "OUTSIDE_WORKSPACE", message, path=target.raw)
    target = next((t for t in facts.targets if t.strange and not t.protected), None)
    if target is None:
        return None
    message = (
        f"{sanitise_line(target.raw)} {target.strange}: what is written there may land outside of here. It needs a "
        "person's yes: say in your answer what you want and why, or delete it and write a fresh file in its place."
    )
    return Finding("outside", "OUTSIDE_WORKSPACE", message, verdict="ask", path=target.raw)


def check_ignored(call: ToolCall, facts: Facts) -> Finding | None:
    """Find INTENTIGNORE_PATH_BLOCKED, with the pattern of `.intentignore` that bars the path whatever the intent."""
    target = next((t for t in facts.targets if t.ignored_by is not None), None)
    if target is None:
        return None
    barred = f"{sanitise_line(target.path or '')} is barred by .intentignore (pattern {target.ignored_by!r})"
    message, context = f"{barred}. Choose another path.", {"pattern": target.ignored_by}
    return Finding("ignored", "INTENTIGNORE_PATH_BLOCKED", message, path=str(target.path), context=context)


def check_scope(call: ToolCall, facts: Facts) -> Finding | None:
    """Find SCOPE_VIOLATION for the first path that `owned_scope` does not cover: an intent may change only the files in
    its scope and, if allowed, the tests and pages that mirror them. All such paths are in the context.

    A mode or a task may narrow a session beside the intent: the path has to match the narrower scope too.

    If all paths are companions of files in the scope, the finding is a remark and allows the call.
    """
    intent = facts.active
    if (narrowed := find_narrowed(call, facts)) is not None or intent is None:
        return narrowed
    beyond = [t for t in facts.targets if t.path is not None and not t.generated and not owns_target(intent, t)]
    outside = [t for t in beyond if call.command is not None or not is_companion(intent, t)]
    if not beyond:
        return None
    if not outside:
        mirrored = "; ".join(
            f"{sanitise_line(t.path or '')} mirrors {sanitise_line(', '.join(t.mirrors))}" for t in beyond
        )
        message = f"Outside the scope of {intent.id}, and its companion: {mirrored}."
        companions = {"companions": [str(t.path) for t in beyond]}
        # The record of the call names the rule of its companions.
        return Finding("companion", "SCOPE_VIOLATION", message, verdict="allow", context=companions)
    first = outside[0]
    shown = sanitise_line(first.path or "")
    return Finding(
        rule="scope",
        code="SCOPE_VIOLATION",
        message=f"Scope Violation: {intent.id} is not authorized to edit {shown}. Request scope expansion.",
        path=str(first.path),
        context={
            "attempted_action": f"{call.effect} {shown}",
            "owned_scope": list(intent.owned_scope),
            "owning_intents": list(facts.intents.find_owners(first.path or "", fold=first.folds)),
            "available_intents": facts.intents.list_open_ids(facts.ignored_intents),
            **({"paths": [str(t.path) for t in outside]} if len(outside) > 1 else {}),
        },
    )


def find_narrowed(call: ToolCall, facts: Facts) -> Finding | None:
    """Return the finding about the first path outside of what the session is narrowed to."""
    for patterns in facts.session.narrow:
        scope = Scope(patterns)
        targets = (t for t in facts.targets if t.path is not None and not t.generated)
        first = next((t for t in targets if t.path is None or not scope.matches(t.path, fold=t.folds)), None)
        if first is not None:
            shown, listed = sanitise_line(first.path or ""), ", ".join(sanitise_line(p, 80) for p in patterns[:5])
            may = f"may change only {listed}" if patterns != NO_FILE else "may change no file of the workspace"
            return Finding(
                rule=NARROW_RULE,
                code="SCOPE_VIOLATION",
                message=f"This session {may}, by its mode or its task, and so not {shown}.",
                path=str(first.path),
                context={"attempted_action": f"{call.effect} {shown}", "narrow": list(patterns)},
            )
    return None


def owns_target(intent: Intent, target: Target) -> bool:
    return target.path is not None and Scope(intent.owned_scope).matches(target.path, fold=target.folds)


def is_companion(intent: Intent, target: Target) -> bool:
    if not intent.companions or target.path is None or not target.mirrors:
        return False
    scope = Scope(intent.owned_scope)
    taken_out = tuple(pattern[1:] for pattern in intent.owned_scope if pattern.startswith("!"))
    barred = bool(taken_out) and Scope(taken_out).matches(target.path, fold=target.folds)
    return not barred and all(scope.matches(path, fold=target.folds) for path in target.mirrors)


def check_lease(call: ToolCall, facts: Facts) -> Finding | None:
    """Find FILE_LEASED for the first path that another session's running call may change: two sessions must not write
    one file at the same time.
    """
    target = next((t for t in facts.targets if t.path is not None and t.leased_by is not None), None)
    if target is None:
        return None
    message = (
        f"Another session is changing {sanitise_line(target.path or '')} just now. "
        "Wait for its call to end, read the file again, then try once more."
    )
    return Finding("lease", "FILE_LEASED", message, path=str(target.path), context={"held_by": target.leased_by})


def check_stale(call: ToolCall, facts: Facts) -> Finding | None:
    """Find STALE_FILE if a file changed since the session read it: it must be read again before it is overwritten. The
    finding holds the difference, so that recovery costs no extra turn.

    A file never read, without an expected hash, is not stale. A search/replace edit checks the old text by itself.
    """
    if call.checks_itself:
        return None
    cited = call.citation.expected_content_hash
    expected = cited.removeprefix("sha256:") if cited else None
    for target in facts.targets:
        known = expected or target.seen_sha256
        if target.path is None or known is None or target.sha256 == known:
            continue
        changed = "was deleted" if target.sha256 is None else "has changed"
        return Finding(
            rule="stale",
            code="STALE_FILE",
            message=f"{sanitise_line(target.path)} {changed} since this session last read it. "
            "Read it again, take the change in, then write.",
            path=str(target.path),
            context={"diff": target.diff} if target.diff else {},
        )
    return None
