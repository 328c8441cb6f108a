"""How a file tool's call changed its files, where its own arguments tell which lines it left alone.

The answer of a tool may tell so, too. It is a diff as a rule: where it says that lines came outside of what the
arguments touch, it took a copy for the original; and of empty lines often one for another.
"""

from collections.abc import Iterable, Iterator, Mapping

from remit.core.call import ToolCall
from remit.core.contents import Hunk
from remit.core.edits import Unclear, proposed
from remit.core.kept_lines import Kept, kept_lines, together
from remit.core.textdiff import hunks_by, lines_of
from remit.gate.effects import Difference, inside
from remit.gate.environment import Environment
from remit.workspace.observe import Change
from remit.workspace.place import Workspace


def placed(
    call: ToolCall, done: Iterable[Change], known: Mapping[str, Difference], workspace: Workspace, around: Environment
) -> Iterator[tuple[str, Difference]]:
    """The paths of the changes of which the call's arguments tell more than is `known`, and how those files differ."""
    if call.edit is None or call.proposal is not None:
        return
    names = {path: raw for raw in call.paths for path in inside(workspace, call, [raw], around)}
    for change in done:
        if change.path in names and (found := told(call, names[change.path], change, known.get(change.path))):
            yield change.path, found


def told(call: ToolCall, raw: str, change: Change, known: Difference | None) -> Difference | None:
    """How a file differs by the arguments; None where they do not tell, where the file is not what they make of it, or
    where the tool's answer agrees and tells more.
    """
    before, after = (side.content if side else None for side in (change.before, change.after))
    if call.edit is None or before is None or after is None:
        return None
    sure = kept_lines(call.edit, raw, before, guess=False)
    if sure is None or not makes(call, raw, before, after):
        return None
    stay = kept_lines(call.edit, raw, before) or sure
    if known is not None and known.told:
        new, wrong = lines_of(after), contradicted(known.hunks, sure)
        if not wrong:
            return None
        copied = any(new[n].strip() for n in wrong)
        stay = stay if copied else together(sure, known.hunks, len(new))
    hunks = hunks_by(before, after, stay)
    return None if hunks is None else Difference(hunks, told=True)


def makes(call: ToolCall, raw: str, before: bytes, after: bytes) -> bool:
    """Whether the arguments make just that content of the one before."""
    try:
        return call.edit is not None and proposed(call.edit, raw, {raw: before}.get).get(raw) == after
    except Unclear:
        return False


def contradicted(hunks: Iterable[Hunk], sure: Kept) -> list[int]:
    """The lines that came, by the hunks, and that were there, by the arguments; from 0."""
    return [number - 1 for hunk in hunks for number in hunk.came if number - 1 in sure]
