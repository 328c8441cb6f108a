"""Lines appended to logs since the last look, by position: a look reads on where the last one ended, also after a
restart of the reader.
"""

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from remit.ledger.log_files import find_last_line_end, list_live_segments, list_readable_places
from remit.ledger.reader import LogLine, LogPosition, read_lines

MAX_LINES = 20_000  # lines of one look; the next look reads on


class LogTail:
    """A reader that follows the logs below `root`: from `positions`, by place, or from their present ends."""

    def __init__(self, root: Path, positions: Mapping[str, LogPosition] | None = None) -> None:
        self.root = root
        known = positions is not None
        self.positions = dict(positions) if known else {place: self.find_end(place) for place in self.list_places()}

    def list_places(self) -> list[str]:
        return list_readable_places(self.root)

    def find_end(self, place: str) -> LogPosition:
        """Return the position after the last whole line of a log."""
        segments = list_live_segments(self.root / place)
        if not segments:
            return LogPosition("", 0, 0)
        descriptor = os.open(self.root / place / segments[-1], os.O_RDONLY | os.O_CLOEXEC)
        try:
            end = find_last_line_end(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)
        return LogPosition(segments[-1], end, 0)

    def read_new_lines(self) -> list[LogLine]:
        """Return the lines since the last look, oldest first in each log. Raises OSError, LedgerError."""
        return list(islice(self.iterate_new_lines(), MAX_LINES))

    def iterate_new_lines(self) -> Iterator[LogLine]:
        for place in self.list_places():
            start = self.positions.get(place)
            for line in read_lines(self.root / place, start if start and start.segment else None):
                self.positions[place] = line.next_position
                yield line
