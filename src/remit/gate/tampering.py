"""Which change of a governing file is an agent's way out, and not a person's or git's doing."""

from msgspec.structs import replace

from remit.core.intent import FINAL, Intent
from remit.workspace.observe import HOOKS, WATCHED, Change
from remit.workspace.place import FOLDER

INTENTS = f"{FOLDER}/active_intents.yaml"


def is_way_out(change: Change) -> bool:
    """Whether the change has to be put back. A file that is gone need not be: the kept copy goes on to hold.

    A hook that is gone is put back: it would not run any more.
    A stash or a checkout turns an intent's status and times back, which loosens nothing; neither does a comment.
    """
    if change.path.startswith(f"{HOOKS}/"):
        return not change.brought
    if change.path not in WATCHED or change.brought or change.after is None:
        return False
    if change.path != INTENTS:
        return True
    return ruled(change.before.content if change.before else b"") != ruled(change.after.content)


def is_bookkeeping(change: Change) -> bool:
    """Whether only an intent's status and times turned, or a comment: each content of that file has its own record.

    Remit writes them when an intent is selected, and a stash or a checkout turns them back.
    """
    if change.path != INTENTS or change.before is None or change.after is None:
        return False
    before, after = change.before.content, change.after.content
    return before is not None and after is not None and ruled(before) == ruled(after) is not None


def ruled(text: bytes | None) -> dict[str, Intent] | None:
    """What the file allows, by id; None where it has errors: then it allows nothing, but nobody could work either."""
    from remit.workspace.intents_file import parse_intents  # milliseconds, and few calls change that file

    document = parse_intents(text or b"active_intents: []\n")
    return None if document.errors else {i.id: bare(i) for i in document.intents}


def bare(intent: Intent) -> Intent:
    """The intent without what may change while it is worked on."""
    status = intent.status if intent.status in FINAL or intent.status == "BLOCKED" else "DRAFT"
    return replace(intent, status=status, updated_at=None, created_at=None)
