"""A file that changed since the session read it must be read again before it is overwritten."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding
from remit.core.untrusted_input import sanitise_line


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find STALE_FILE, with the difference since that read, so that recovery costs no extra turn.

    A file that was never read, with no expected hash, is not stale. A search/replace edit checks itself.
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
