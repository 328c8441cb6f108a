"""Whether a command leaves something running when it ends, as far as its text tells."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from remit.policy.commands.options import names
from remit.policy.commands.syntax import masked, parse
from remit.policy.commands.words import Refused

if TYPE_CHECKING:
    from tree_sitter import Node

LONE = re.compile(r"(?<![&>|<\\])&(?![&>])")
"""An `&` that may put something into the background; most commands hold none."""

ENDS = names("wait kill pkill fg")
"""What a text that looks after its background processes itself says."""


def leaves_running(command: str) -> bool:
    """Whether it puts something into the background (`&`) and neither waits for it nor ends it."""
    if not LONE.search(command):
        return False
    try:
        found = list(nodes(parse(masked(command))))
    except Refused:
        return False
    ran = {(node.text or b"").decode("utf-8", "replace") for node in found if node.type == "command_name"}
    return any(node.type == "&" for node in found) and not ran & ENDS


def nodes(node: "Node") -> Iterator["Node"]:
    """The node and all below it."""
    yield node
    for child in node.children:
        yield from nodes(child)
