"""Taking secrets out of text before it is written anywhere. First form: the shapes that secrets are known by."""

import re

MASK = "[redacted]"

PATTERNS = (
    r"\b(?:sk|pk|rk)-(?:ant-|proj-|live-|test-)?[A-Za-z0-9_-]{16,}",
    r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\beyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]*",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]{0,20000}?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
)
ASSIGNED = (
    r"(?P<name>(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential)[A-Za-z0-9_]{0,64}"
    r"['\"]?\s{0,16}[=:]\s{0,16}['\"]?)(?P<value>[^\s'\"&;|]{6,})"
)
IN_URL = r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,200}:)(?P<password>[^\s/@]{1,200})(?=@)"
BEARER = r"(?P<scheme>\b(?:Bearer|Basic|token)\s+)(?P<credential>[A-Za-z0-9+/=._~-]{12,})"

SHAPES = re.compile("|".join(PATTERNS))
NAMED = (re.compile(ASSIGNED, re.IGNORECASE), re.compile(IN_URL), re.compile(BEARER, re.IGNORECASE))


def redact(text: str) -> str:
    """`text` with what looks like a secret replaced by `[redacted]`; what is around it stays readable."""
    clean = SHAPES.sub(MASK, text)
    for pattern in NAMED:
        clean = pattern.sub(lambda found: found[1] + MASK, clean)
    return clean
