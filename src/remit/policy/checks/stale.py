"""A file that changed since the session read it must be read again before it is overwritten."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts, Target


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find STALE_FILE, with the difference since that read, so that recovery costs no extra turn.

    A file that was never read, with no expected hash, is not stale. A search/replace edit checks itself.
    """
    if call.checks_itself:
        return None
    target = next((t for t in facts.targets if is_stale(call, t)), None)
    if target is None:
        return None
    gone = target.sha256 is None
    return Finding(
        rule="stale",
        code="STALE_FILE",
        message=f"{sanitise_line(target.path or '')} "
        f"{'was deleted' if gone else 'has changed'} since this session last read it. "
        "Read it again, take the change in, then write.",
        path=str(target.path),
        context={"diff": target.diff} if target.diff else {},
    )


def is_stale(call: ToolCall, target: Target) -> bool:
    expected = expected_sha256(call) or target.seen_sha256
    return target.path is not None and expected is not None and target.sha256 != expected


def expected_sha256(call: ToolCall) -> str | None:
    """Return the hash that the call cites, without its `sha256:`."""
    cited = call.citation.expected_content_hash
    return cited.removeprefix("sha256:") if cited else None
