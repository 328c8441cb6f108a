"""Commands must not make git overlook changes, nor publish Remit's own refs."""

import re

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding

GIT_COMMAND = r"\bgit\b[^\n|;&]{0,2000}?"
HIDING_FLAGS = re.compile(rf"{GIT_COMMAND}\bupdate-index\b[^\n|;&]{{0,2000}}?\s--(?:as|sk)[a-z-]*")
"""Long options may be shortened to a unique beginning. Source: gitcli(7), read 2026-11."""

PUBLISHED_REFS = re.compile(
    rf"{GIT_COMMAND}\bpush\b[^\n|;&]{{0,2000}}?(?:\s--mi[a-z]*|\srefs/(?:\*|remit\b)|\s[+'\"]+refs/(?:\*|remit\b))"
)
MAX_SEARCHED_CHARS = 65536


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for marking files assume-unchanged or skip-worktree, and for pushing `refs/remit`.

    The text allows only an early message: a flag that was set in another way hides nothing from the comparison.
    """
    text = (call.command or "")[:MAX_SEARCHED_CHARS]
    message = ""
    if "git" in text and HIDING_FLAGS.search(text):
        message = "`git update-index` with such a flag hides changes from people and from Remit. Leave it out."
    elif "git" in text and PUBLISHED_REFS.search(text):
        message = (
            "`git push --mirror` publishes every ref, also `refs/remit/*`, where Remit keeps older contents of files. "
            "Push the branches and tags that are meant: `git push --all`, `git push --tags`."
        )
    return Finding("blinding", "COMMAND_BLOCKED", message) if message else None
