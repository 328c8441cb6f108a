"""What the agents' settings run where the hook client is missing, crashed, or could not decide."""

FALLBACK = (
    '{ d=$(git rev-parse --git-common-dir 2>/dev/null) && [ -e "$d/remit/enforce" ] && '
    "{ echo 'remit: the hook client did not answer, so this is refused; run: remit doctor' >&2; exit 2; }; exit 0; }"
)
"""POSIX shell, run in the agent's folder: refuses where the repository around it is in enforce, else lets pass."""
