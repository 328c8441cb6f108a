"""What the agents' settings run where the hook client is missing, crashed, or could not decide."""

FALLBACK = (
    '{ rmt() { [ -e "$1/enforce" ] && '
    "{ echo 'remit: the hook client did not answer, so this is refused; run: remit doctor' >&2; "
    "echo \"remit: if Remit is gone, a person installs it again, or ends this by: rm '$1/enforce'\" >&2; exit 2; }; "
    '[ -e "$1/governed" ] && exit 0; }; '
    "rmt_d=$(git -c 'safe.directory=*' rev-parse --git-common-dir 2>/dev/null) && rmt \"$rmt_d/remit\"; "
    'rmt_d=$(pwd -P); while [ -n "$rmt_d" ]; do '
    'rmt "$rmt_d/.git/remit"; rmt "$rmt_d/.orchestration/.state"; rmt_d=${rmt_d%/*}; done; exit 0; }'
)
"""POSIX shell, run in the agent's folder: refuses where the nearest governed workspace is in enforce, else lets pass.

git knows the state folder of a worktree, whoever owns the repository; the folders above are for a workspace without
git, and for a PATH without it. The names are odd because some agents put variables of their own into their settings.
"""
