"""Ways to say the secret place `$P` in a command."""

WAYS = {
    "cat": 'cat "$P"',
    "a link": 'ln -sf "$P" src/way && cat src/way',
    "a path with links and dots": 'cat "$(dirname "$P")/../$(basename "$(dirname "$P")")/$(basename "$P")"',
    "the root of a process": 'for R in /proc/[0-9]*/root /proc/self/root; do cat "$R$P"; done',
    "the folder of a process": '(cd / && cat /proc/self/cwd"$P"; cat /proc/[0-9]*/cwd"$P")',
    "an open descriptor": 'exec 9<"$P"; cat <&9; cat /proc/self/fd/9',
    "tar": 'tar -chf - "$P"',
    "cp": 'cp -rL "$P" src/copy; cat src/copy',
    "git's include": 'git -c include.path="$P" config --list; git hash-object -w "$P" | xargs git cat-file -p',
    "git's comparison": 'git diff --no-index /dev/null "$P"',
    "python": "python3 -c \"import os; print(open(os.environ['P']).read())\"",
    "curl": 'curl -s "file://$P"',
    "a mount of its own": 'unshare -Urm sh -c "umount $P; mount --bind / /mnt; cat $P /mnt$P"',
    "each mount": (
        'for M in $(cut -d" " -f4,5 /proc/self/mountinfo); do '
        'for F in "$M$P" "$M"; do [ -f "$F" ] && cat "$F"; done; done'
    ),
    "find": 'find "$P" -type f -exec cat {} +; find "$(dirname "$P")" -maxdepth 2 -type f -exec cat {} +',
}
