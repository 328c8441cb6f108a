"""The table of commands that are dangerous whatever the scope: one row a command, or a family of them.

Containing a command helps against none of them: they destroy what is kept nowhere else, work on the machine, or reach
beyond it.
"""

from typing import TypeAlias

from msgspec import Struct

from remit.policy.commands.parse.options import word_set

Verbs: TypeAlias = tuple[frozenset[str], ...]


class DangerRule(Struct, frozen=True):
    """One row. All of what it says must hold.

    `verbs`: the first words that are no options, one set each. `options`: one of them is given; a short one may stand
    in a bundle. `words`: one of the other words matches. `unless`: none of these is given, as an option or as a first
    word. `lasting`: nothing brings back what it does, neither git nor a snapshot of the working tree.
    """

    programs: frozenset[str]
    reason: str
    verbs: Verbs = ()
    options: frozenset[str] = frozenset()
    words: str = ""
    unless: frozenset[str] = frozenset()
    is_irreversible: bool = True


def danger_rule(
    command: str, reason: str, options: str = "", words: str = "", unless: str = "", *, is_irreversible: bool = True
) -> DangerRule:
    """A row. `command` is `PROGRAM VERB…`, each with its alternatives after `|`."""
    first, *verbs = command.split()
    return DangerRule(
        frozenset(first.split("|")),
        reason,
        tuple(frozenset(verb.split("|")) for verb in verbs),
        word_set(options),
        words,
        word_set(unless),
        is_irreversible,
    )


EVERYTHING_HERE = r"\.|\./|\*|:/|\./\*|\.\.(?:/.*)?"
DISCARDS_WORK = "discards work that git does not keep"
REWRITES_HISTORY = "rewrites or deletes history"
REWRITES_SHARED_BRANCH = "rewrites or deletes a branch that others have"
WORKS_ON_DISKS = "works on disks"
CHANGES_USERS = "changes users or their rights"
CHANGES_MACHINE = "changes how this machine runs"
PUBLISHES = "publishes, which cannot be taken back"
DESTROYS_REMOTELY = "destroys what lies beyond this machine"
EVADES_CONTROL = "gets round what governs agents"

DANGER_RULES: tuple[DangerRule, ...] = (
    # work and history
    danger_rule("git reset", DISCARDS_WORK, "--hard --merge --keep", is_irreversible=False),
    danger_rule("git clean", "deletes what no snapshot holds", "-x -X", unless="-n --dry-run"),
    danger_rule("git clean", DISCARDS_WORK, "-f --force", unless="-n --dry-run", is_irreversible=False),
    danger_rule("git checkout", DISCARDS_WORK, "-f --force", is_irreversible=False),
    danger_rule("git checkout", DISCARDS_WORK, words=EVERYTHING_HERE, is_irreversible=False),
    danger_rule("git restore", DISCARDS_WORK, words=EVERYTHING_HERE, unless="-S --staged", is_irreversible=False),
    danger_rule("git restore", DISCARDS_WORK, "-W --worktree", words=EVERYTHING_HERE, is_irreversible=False),
    danger_rule("git switch", DISCARDS_WORK, "-f --force --discard-changes -C --force-create", is_irreversible=False),
    danger_rule("git checkout", REWRITES_HISTORY, "-B", is_irreversible=False),
    danger_rule("git checkout-index|read-tree", DISCARDS_WORK, "-f --force --reset -u", is_irreversible=False),
    danger_rule("git stash drop|clear", DISCARDS_WORK),
    danger_rule("git submodule deinit", DISCARDS_WORK, "-f --force"),
    danger_rule("git worktree remove", DISCARDS_WORK, "-f --force"),
    danger_rule("git rm", DISCARDS_WORK, "-r", words=EVERYTHING_HERE, is_irreversible=False),
    danger_rule("git branch", REWRITES_HISTORY, "-D -M -f --force", is_irreversible=False),
    danger_rule("git tag", REWRITES_HISTORY, "-f --force", is_irreversible=False),
    danger_rule("git reflog expire|delete", REWRITES_HISTORY),
    danger_rule("git filter-branch|filter-repo|replace", REWRITES_HISTORY),
    danger_rule("git update-ref", REWRITES_HISTORY, "-d --stdin"),
    danger_rule("git gc", REWRITES_HISTORY, "--prune"),
    danger_rule("git prune|prune-packed", REWRITES_HISTORY, unless="-n --dry-run"),
    danger_rule("git push", REWRITES_SHARED_BRANCH, "-f --force --force-with-lease --force-if-includes --mirror --delete -d --prune",  # noqa: E501
          unless="-n --dry-run"),
    danger_rule("git push", REWRITES_SHARED_BRANCH, words=r"\+.+|:[^/].*", unless="-n --dry-run"),
    # disks, users, the machine
    danger_rule("dd", WORKS_ON_DISKS, words=r"of=/dev/(?!null$|stdout$|stderr$|zero$).*"),
    danger_rule("fdisk|sfdisk|cfdisk|gdisk|sgdisk|parted|wipefs|blkdiscard|hdparm|cryptsetup|mkswap|swapon|swapoff|losetup|"
          "lvremove|vgremove|pvremove|mdadm|badblocks|diskutil", WORKS_ON_DISKS),
    danger_rule("mount|umount|chroot|pivot_root", WORKS_ON_DISKS, unless="-l --version --help"),
    danger_rule("useradd|userdel|usermod|adduser|deluser|groupadd|groupdel|groupmod|gpasswd|passwd|chpasswd|visudo|chsh|chfn|"
          "vipw|dscl", CHANGES_USERS),
    danger_rule("sudo|doas|su|pkexec|runuser|sudoedit", "acts as another user, or the administrator"),
    danger_rule("chmod", CHANGES_USERS, words=r"[ugoa]*\+[rwx]*s[rwxt]*|0?[4-7]\d{3}", is_irreversible=False),
    danger_rule("shutdown|reboot|halt|poweroff|telinit", CHANGES_MACHINE),
    danger_rule("init", CHANGES_MACHINE, words=r"[06]"),
    danger_rule("systemctl", CHANGES_MACHINE, unless="status show list-units list-unit-files list-timers list-sockets is-active "  # noqa: E501
          "is-enabled is-failed cat --version --help help get-default list-dependencies", is_irreversible=False),
    danger_rule("service", CHANGES_MACHINE, words="start|stop|restart|reload", is_irreversible=False),
    danger_rule("launchctl", CHANGES_MACHINE, unless="list print help", is_irreversible=False),
    danger_rule("crontab", CHANGES_MACHINE, unless="-l"),
    danger_rule("crontab", CHANGES_MACHINE, "-r -e -i"),
    danger_rule("at|batch", "runs something later, when nobody looks", unless="-l -V"),
    danger_rule("kill", CHANGES_MACHINE, words="-1"),
    danger_rule("killall|killall5", CHANGES_MACHINE, unless="-l --list -0", is_irreversible=False),
    danger_rule("sysctl", CHANGES_MACHINE, "-w -p --write --load --system"),
    danger_rule("iptables|ip6tables|nft|ufw|firewall-cmd|pfctl", CHANGES_MACHINE, unless="-L -S --list status --state list"),  # noqa: E501
    danger_rule("modprobe|insmod|rmmod|kexec|setenforce|setcap|update-alternatives", CHANGES_MACHINE),
    danger_rule("nvram|csrutil|spctl|defaults", CHANGES_MACHINE, unless="read status"),
    danger_rule("history", "wipes what the shell remembers", "-c -d -w", is_irreversible=False),
    # containers that hold the machine
    danger_rule("docker|podman|nerdctl run|create", "gives a container the machine", "--privileged"),
    danger_rule("docker|podman|nerdctl run|create|exec", "gives a container the machine",
          words=r"(?:-v|--volume=|--mount=.*(?:source|src)=)?(?:/|~|\$HOME|\$\{HOME\}|/root|/etc|/home|/var|/usr|"
          r"/var/run/docker\.sock|/run/docker\.sock)/?:.*|(?:--pid|--net|--network|--ipc|--userns)=host"),
    danger_rule("docker|podman system|volume|image|container|network|builder prune|rm", "destroys containers and their data"),  # noqa: E501
    danger_rule("docker|podman rm|rmi", "destroys containers and their data", "-f --force -v"),
    danger_rule("docker-compose down", "destroys containers and their data", "-v --volumes --rmi"),
    # beyond this machine
    danger_rule("npm|pnpm|yarn|bun|cargo|poetry|uv|flit|hatch|pdm|lerna publish|unpublish|yank", PUBLISHES,
          unless="--dry-run -n"),
    danger_rule("twine upload", PUBLISHES),
    danger_rule("gem push|yank", PUBLISHES),
    danger_rule("docker|podman push", PUBLISHES),
    danger_rule("mvn deploy|release:perform", PUBLISHES),
    danger_rule("gh repo|release|secret|variable|ssh-key|gpg-key|gist|issue|run|cache "
          "delete|archive|edit|rename|set|remove|add", DESTROYS_REMOTELY),
    danger_rule("gh pr merge|close", "changes what others share"),
    danger_rule("gh release|gist create|upload", PUBLISHES),
    danger_rule("kubectl|oc delete|drain|cordon|scale|replace|apply|patch|edit|exec", DESTROYS_REMOTELY, unless="--dry-run"),  # noqa: E501
    danger_rule("terraform|tofu|terragrunt apply|destroy|import|taint|force-unlock", DESTROYS_REMOTELY),
    danger_rule("terraform|tofu state|workspace rm|mv|push|delete", DESTROYS_REMOTELY),
    danger_rule("pulumi|cdk|cdktf|serverless|sls|sam up|destroy|deploy|remove|delete", DESTROYS_REMOTELY),
    danger_rule("helm install|upgrade|uninstall|delete|rollback", DESTROYS_REMOTELY, unless="--dry-run"),
    danger_rule("aws", DESTROYS_REMOTELY, words=r"(?:delete|terminate|remove|destroy|purge|put|create|update|modify|stop|reboot|run)-"  # noqa: E501
          r"[\w-]+|rm|rb|mv|sync|cp"),
    danger_rule("gcloud|az|heroku|flyctl|fly|doctl|vercel|netlify|firebase", DESTROYS_REMOTELY,
          words=r"(?:\w+:)?(?:delete|destroy|remove|deploy|create|update|reset|stop|purge)"),
    danger_rule("dropdb|dropuser|mysqladmin", DESTROYS_REMOTELY),
    danger_rule("psql|mysql|mariadb|sqlite3|sqlcmd|clickhouse-client|duckdb", "destroys a database's data",
          words=r"(?is).*\b(?:drop\s+(?:table|database|schema|index|view|user|role)|truncate\s|delete\s+from|alter\s+table|update\s+\w+\s+set)\b.*"),
    danger_rule("redis-cli", DESTROYS_REMOTELY, words=r"(?i)flushall|flushdb|shutdown|config"),
    danger_rule("mongo|mongosh", DESTROYS_REMOTELY, words=r"(?s).*(?:dropDatabase|\.drop\(|deleteMany|remove\().*"),
    danger_rule("nc|ncat|netcat|socat", "gives a shell to the network", "-e --exec -c --sh-exec"),
    danger_rule("socat", "gives a shell to the network", words=r"(?i).*(?:exec|system):.*"),
    # what governs agents
    danger_rule("git commit|merge|push|am|rebase|cherry-pick|revert", EVADES_CONTROL, "--no-verify", is_irreversible=False),  # noqa: E501
    danger_rule("git commit", EVADES_CONTROL, "-n", is_irreversible=False),
    danger_rule("git config", EVADES_CONTROL, words=r"(?i)(?:"
          r"core\.(?:hookspath|fsmonitor|sshcommand|editor|pager|worktree|attributesfile)|alias\..*|filter\..*|diff\..*|merge\..*\.driver|credential\..*|include.*\.path|url\..*|protocol\..*|gpg\..*)",
          unless="--get --get-all --get-regexp --list -l get list", is_irreversible=False),
    danger_rule("claude", EVADES_CONTROL, "--dangerously-skip-permissions --allow-dangerously-skip-permissions", is_irreversible=False),  # noqa: E501
    danger_rule("codex", EVADES_CONTROL, "--yolo --dangerously-bypass-approvals-and-sandbox --full-auto", is_irreversible=False),  # noqa: E501
    danger_rule("gemini|qwen", EVADES_CONTROL, "-y --yolo", is_irreversible=False),
    danger_rule("chattr|lsattr", EVADES_CONTROL, "-i +i", words=r".*(?:\.orchestration|\.git|\.claude|\.intentignore).*",  # noqa: E501
          is_irreversible=False),
    danger_rule("pkill|killall|kill", EVADES_CONTROL, words=r".*\bremit.*", is_irreversible=False),
    danger_rule("tmux|screen kill-server", CHANGES_MACHINE, is_irreversible=False),
)  # fmt: skip

RULED_PROGRAMS = frozenset(name for rule in DANGER_RULES for name in rule.programs)

VALUED_LETTERS: dict[str, str] = {
    "git": "mFCcSt",
    "sudo": "",
}
"""Short options that take the rest of their bundle, or the next word, for a value: it names no option."""

WRAPPER_PROGRAMS = word_set(
    "sudo doas su env xargs find nohup nice ionice timeout time setsid stdbuf command builtin exec eval sh bash dash "
    "zsh ksh parallel watch flock fd fdfind chronic unbuffer busybox ssh docker podman kubectl caffeinate script entr "
    "! then do else if while until {"
)
"""They run what stands behind them, or stand before a command."""

SHELLS = word_set("sh bash dash zsh ksh fish ash")
INTERPRETERS = SHELLS | word_set(
    "python python3 python2 perl ruby node nodejs php deno bun lua osascript pwsh powershell"
)
FETCHERS = word_set("curl wget fetch aria2c http https xh lwp-download GET ftp")

SENDERS = word_set(
    "curl wget nc ncat netcat socat ssh scp sftp rsync ftp telnet nslookup dig host ping http https xh mail mailx "
    "sendmail mutt aws gsutil gcloud rclone gh glab az s3cmd b2 ngrok cloudflared openssl drill kdig whois logger tftp "
    "lftp croc magic-wormhole"
)
"""They send what they are given to another machine."""

ENVIRONMENT_PRINTERS = word_set("env printenv set export declare")
"""Their output holds what the environment keeps, tokens included."""

DESTROYERS = word_set("rm rmdir shred unlink chmod chown chgrp mv truncate srm")
"""Of the whole of a place they leave nothing, or nothing that can be used."""

PRECIOUS_PLACES = (
    r"/|/\*|(?:~|\$HOME|\$\{HOME\})(?:/|/\*|/\.\*|/\.(?:ssh|config|local|gnupg|aws|claude|codex|gemini)(?:/.*)?)?"
    r"|/(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|usr|var|Users|System|Library|Applications)(?:/\*?|/[^/]*/?)?"
    r"|(?:.*/)?\.git(?:/|/\*|/(?:objects|refs|hooks|logs|config|HEAD|index|remit)(?:/.*)?)?"
)
"""Places whose loss nobody wants, from whatever folder they are named."""

WHOLE_FOLDER = r"\.|\*|\.\*|\.\.(?:/.*)?|\.\[!\.\]\*|\{\*,\.\*\}|\$PWD(?:/\*?)?|\$\(pwd\)(?:/\*?)?|\$\{PWD\}(?:/\*?)?"
"""All of the folder that one is in, or what is above it."""

CONTROL_FILES = (
    r"\.orchestration/|\.intentignore|\.git/(?:hooks|config|remit)|\.claude/(?:settings|hooks)|\.codex/(?:config|hooks)|"
    r"\.gemini/settings|\.cursor/hooks|\.local/(?:state|share)/remit"
)
CHANGING_CODE = (
    r"['\"][wax]b?\+?['\"]|write|unlink|remove|rename|rmtree|truncate|replace|\bdump\(|\bcopy|\bmove|chmod|['\"]>"
)
"""What code says that changes a file."""

EDITORS = word_set(
    "vim vi nvim ex ed emacs nano chattr setfattr yq jq patch sqlite3 sed awk gawk perl ruby install busybox"
)
