"""Which agents wrote the lines that the next commit would add."""

from collections import Counter

from msgspec.structs import replace

from remit.core.record import KEY
from remit.core.trailers import Helped
from remit.provenance.blame.blame import model_of
from remit.provenance.notes.additions import staged
from remit.provenance.notes.notes import NoteWriter

NOW = 1 << 60
"""Younger than any record: what is staged may hold lines of all of them."""


def helped(writer: NoteWriter) -> list[Helped]:
    """The agents, who wrote most first; of what is staged alone. Raises GitError."""
    blamer = writer.blamer
    if not writer.attribution.anything_recorded:
        return []
    found = [replace(addition, at=NOW) for addition in staged(blamer.git, blamer.git.head())]
    counts = Counter(label.record for _, labels in writer.known(found) for label in labels.values() if label.proved)
    lines: Counter[Helped] = Counter()
    for name, record in blamer.records(counts).items():
        body = record["metadata"][KEY]
        tool = record.get("tool", {})
        if body.get("event") == "mutation" and tool.get("name"):
            one = Helped(tool["name"], tool.get("version"), model_of(record), body.get("intent_id"))
            lines[one] += counts[name]
    return [one for one, _ in sorted(lines.items(), key=lambda pair: (-pair[1], pair[0].agent))]
