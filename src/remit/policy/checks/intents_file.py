"""Changes are refused while the files that govern are broken."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find CONFIG_INVALID or INTENTS_FILE_INVALID, with the place in the file."""
    if facts.config_error is not None:
        return Finding("config", "CONFIG_INVALID", f"{facts.config_error}. A person has to mend it.")
    if facts.intents_state != "invalid":
        return None
    first = next(f for f in facts.intents_findings if f.severity == "error")
    others = sum(f.severity == "error" for f in facts.intents_findings) - 1
    more = f" (and {others} more)" if others else ""
    message = (
        f".orchestration/{first.place}: {first.code}: {first.message}{more}. "
        "A person has to mend it; `remit intent lint` shows all findings."
    )
    context = {"line": first.line, "column": first.column, "code": first.code}
    return Finding("intents_file", "INTENTS_FILE_INVALID", message, context=context)
