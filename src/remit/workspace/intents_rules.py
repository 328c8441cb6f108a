"""What an intent of the file is bound by: its constraints, and the criteria that it is done by."""

import re
from collections.abc import Iterator
from typing import TypeAlias

from remit.core.intent import Constraint, Criterion
from remit.core.validation import describe_rule
from remit.workspace.intents_fields import Fields, any_of
from remit.workspace.yaml_nodes import Node, Scalar, Series, Table, is_null

Value: TypeAlias = "str | int | bool | None | list[Value] | dict[str, Value]"
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)


def constraints_in(fields: Fields) -> Iterator[Constraint]:
    """The constraints that can be read; what is wrong with the others is noted in `fields`."""
    for node in fields.items("constraints"):
        if isinstance(node, Table):
            constraint = _rule(fields, node)
            if constraint is not None:
                yield constraint
            continue
        text = fields.as_text(node, "constraints")
        if text is not None:
            yield Constraint(text)


def criteria_in(fields: Fields) -> Iterator[Criterion]:
    """The criteria that can be read; what is wrong with the others is noted in `fields`."""
    field = "acceptance_criteria"
    for node in fields.items(field):
        parts = fields.pairs(node, field) if isinstance(node, Table) else {"text": node}
        for name in parts:
            if name not in ("text", "verify"):
                fields.unknown(parts[name], name)
        if "text" not in parts:
            fields.wrong(node, field, "the criterion has no text")
            continue
        text = fields.as_text(parts["text"], field)
        verify_node = parts.get("verify")
        bare = verify_node is None or is_null(verify_node)
        verify = None if bare or verify_node is None else fields.as_text(verify_node, field)
        if text is not None:
            yield Criterion(text, verify)


def _rule(fields: Fields, node: Table) -> Constraint | None:
    """A structured constraint; without a text of its own it gets one that says the rule."""
    from remit.core.constraint_shapes import SHAPES, problems  # only where the file changed, and has one

    parts = fields.pairs(node, "constraints")
    kind_node = parts.pop("type", None)
    if kind_node is None:
        fields.wrong(node, "constraints", f"the constraint has no type; expected {any_of(tuple(SHAPES))}")
        return None
    kind = fields.as_text(kind_node, "constraints")
    if kind is None:
        return None
    if kind not in SHAPES:
        said = f"type is {kind[:80]!r}; expected {any_of(tuple(SHAPES))}"
        fields.wrong(kind_node, "constraints", said)
    text_node = parts.pop("text", None)
    text = None if text_node is None else fields.as_text(text_node, "constraints")
    options = {name: _value(fields, part, "constraints") for name, part in parts.items()}
    for problem in problems(kind, options) if kind in SHAPES else ():
        fields.wrong(parts.get(problem.option, node), "constraints", problem.message)
    return Constraint(text or describe_rule(kind, options), kind, options)


def _value(fields: Fields, node: Node, field: str) -> Value:
    """An option as a plain value. Only a whole number, true, false and null are more than their text:
    `version: 1.10` is not 1.1, and a path may be called `no`.
    """
    if isinstance(node, Series):
        return [_value(fields, item, field) for item in node.items]
    if isinstance(node, Table):
        return {name: _value(fields, part, field) for name, part in fields.pairs(node, field).items()}
    if is_null(node):
        return None
    text = fields.as_text(node, field)
    if text is None or (isinstance(node, Scalar) and node.style):
        return text
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    return int(text) if _INTEGER.fullmatch(text) else text
