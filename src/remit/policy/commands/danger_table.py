"""The table of commands that are dangerous whatever the scope: one row a command, or a family of them.

Containing a command helps against none of them: they destroy what is kept nowhere else, work on the machine, or reach
beyond it.
"""

from typing import TypeAlias

from msgspec import Struct

from remit.policy.commands.options import names

Verbs: TypeAlias = tuple[frozenset[str], ...]


class Rule(Struct, frozen=True):
    """One row. All of what it says must hold.

    `verbs`: the first words that are no options, one set each. `options`: one of them is given; a short one may stand
    in a bundle. `words`: one of the other words matches. `unless`: none of these is given, as an option or as a first
    word. `lasting`: nothing brings back what it does, neither git nor a snapshot of the working tree.
    """

    programs: frozenset[str]
    why: str
    verbs: Verbs = ()
    options: frozenset[str] = frozenset()
    words: str = ""
    unless: frozenset[str] = frozenset()
    lasting: bool = True


def _rule(
    command: str, why: str, options: str = "", words: str = "", unless: str = "", *, lasting: bool = True
) -> Rule:
    """A row. `command` is `PROGRAM VERB…`, each with its alternatives after `|`."""
    first, *verbs = command.split()
    return Rule(
        frozenset(first.split("|")),
        why,
        tuple(frozenset(verb.split("|")) for verb in verbs),
        names(options),
        words,
        names(unless),
        lasting,
    )


EVERYTHING = r"\.|\./|\*|:/|\./\*|\.\.(?:/.*)?"
LOST = "discards work that git does not keep"
HISTORY = "rewrites or deletes history"
SHARED = "rewrites or deletes a branch that others have"
DISK = "works on disks"
USERS = "changes users or their rights"
MACHINE = "changes how this machine runs"
PUBLISHES = "publishes, which cannot be taken back"
FAR = "destroys what lies beyond this machine"
CONTROLS = "gets round what governs agents"

RULES: tuple[Rule, ...] = (
    # work and history
    _rule("git reset", LOST, "--hard --merge --keep", lasting=False),
    _rule("git clean", "deletes what no snapshot holds", "-x -X", unless="-n --dry-run"),
    _rule("git clean", LOST, "-f --force", unless="-n --dry-run", lasting=False),
    _rule("git checkout", LOST, "-f --force", lasting=False),
    _rule("git checkout", LOST, words=EVERYTHING, lasting=False),
    _rule("git restore", LOST, words=EVERYTHING, unless="-S --staged", lasting=False),
    _rule("git restore", LOST, "-W --worktree", words=EVERYTHING, lasting=False),
    _rule("git switch", LOST, "-f --force --discard-changes -C --force-create", lasting=False),
    _rule("git checkout", HISTORY, "-B", lasting=False),
    _rule("git checkout-index|read-tree", LOST, "-f --force --reset -u", lasting=False),
    _rule("git stash drop|clear", LOST),
    _rule("git submodule deinit", LOST, "-f --force"),
    _rule("git worktree remove", LOST, "-f --force"),
    _rule("git rm", LOST, "-r", words=EVERYTHING, lasting=False),
    _rule("git branch", HISTORY, "-D -M -f --force", lasting=False),
    _rule("git tag", HISTORY, "-f --force", lasting=False),
    _rule("git reflog expire|delete", HISTORY),
    _rule("git filter-branch|filter-repo|replace", HISTORY),
    _rule("git update-ref", HISTORY, "-d --stdin"),
    _rule("git gc", HISTORY, "--prune"),
    _rule("git prune|prune-packed", HISTORY, unless="-n --dry-run"),
    _rule("git push", SHARED, "-f --force --force-with-lease --force-if-includes --mirror --delete -d --prune",
          unless="-n --dry-run"),
    _rule("git push", SHARED, words=r"\+.+|:[^/].*", unless="-n --dry-run"),
    # disks, users, the machine
    _rule("dd", DISK, words=r"of=/dev/(?!null$|stdout$|stderr$|zero$).*"),
    _rule("fdisk|sfdisk|cfdisk|gdisk|sgdisk|parted|wipefs|blkdiscard|hdparm|cryptsetup|mkswap|swapon|swapoff|losetup|"
          "lvremove|vgremove|pvremove|mdadm|badblocks|diskutil", DISK),
    _rule("mount|umount|chroot|pivot_root", DISK, unless="-l --version --help"),
    _rule("useradd|userdel|usermod|adduser|deluser|groupadd|groupdel|groupmod|gpasswd|passwd|chpasswd|visudo|chsh|chfn|"
          "vipw|dscl", USERS),
    _rule("sudo|doas|su|pkexec|runuser|sudoedit", "acts as another user, or the administrator"),
    _rule("chmod", USERS, words=r"[ugoa]*\+[rwx]*s[rwxt]*|0?[4-7]\d{3}", lasting=False),
    _rule("shutdown|reboot|halt|poweroff|telinit", MACHINE),
    _rule("init", MACHINE, words=r"[06]"),
    _rule("systemctl", MACHINE, unless="status show list-units list-unit-files list-timers list-sockets is-active "
          "is-enabled is-failed cat --version --help help get-default list-dependencies", lasting=False),
    _rule("service", MACHINE, words="start|stop|restart|reload", lasting=False),
    _rule("launchctl", MACHINE, unless="list print help", lasting=False),
    _rule("crontab", MACHINE, unless="-l"),
    _rule("crontab", MACHINE, "-r -e -i"),
    _rule("at|batch", "runs something later, when nobody looks", unless="-l -V"),
    _rule("kill", MACHINE, words="-1"),
    _rule("killall|killall5", MACHINE, unless="-l --list -0", lasting=False),
    _rule("sysctl", MACHINE, "-w -p --write --load --system"),
    _rule("iptables|ip6tables|nft|ufw|firewall-cmd|pfctl", MACHINE, unless="-L -S --list status --state list"),
    _rule("modprobe|insmod|rmmod|kexec|setenforce|setcap|update-alternatives", MACHINE),
    _rule("nvram|csrutil|spctl|defaults", MACHINE, unless="read status"),
    _rule("history", "wipes what the shell remembers", "-c -d -w", lasting=False),
    # containers that hold the machine
    _rule("docker|podman|nerdctl run|create", "gives a container the machine", "--privileged"),
    _rule("docker|podman|nerdctl run|create|exec", "gives a container the machine",
          words=r"(?:-v|--volume=|--mount=.*(?:source|src)=)?(?:/|~|\$HOME|\$\{HOME\}|/root|/etc|/home|/var|/usr|"
          r"/var/run/docker\.sock|/run/docker\.sock)/?:.*|(?:--pid|--net|--network|--ipc|--userns)=host"),
    _rule("docker|podman system|volume|image|container|network|builder prune|rm", "destroys containers and their data"),
    _rule("docker|podman rm|rmi", "destroys containers and their data", "-f --force -v"),
    _rule("docker-compose down", "destroys containers and their data", "-v --volumes --rmi"),
    # beyond this machine
    _rule("npm|pnpm|yarn|bun|cargo|poetry|uv|flit|hatch|pdm|lerna publish|unpublish|yank", PUBLISHES,
          unless="--dry-run -n"),
    _rule("twine upload", PUBLISHES),
    _rule("gem push|yank", PUBLISHES),
    _rule("docker|podman push", PUBLISHES),
    _rule("mvn deploy|release:perform", PUBLISHES),
    _rule("gh repo|release|secret|variable|ssh-key|gpg-key|gist|issue|run|cache "
          "delete|archive|edit|rename|set|remove|add", FAR),
    _rule("gh pr merge|close", "changes what others share"),
    _rule("gh release|gist create|upload", PUBLISHES),
    _rule("kubectl|oc delete|drain|cordon|scale|replace|apply|patch|edit|exec", FAR, unless="--dry-run"),
    _rule("terraform|tofu|terragrunt apply|destroy|import|taint|force-unlock", FAR),
    _rule("terraform|tofu state|workspace rm|mv|push|delete", FAR),
    _rule("pulumi|cdk|cdktf|serverless|sls|sam up|destroy|deploy|remove|delete", FAR),
    _rule("helm install|upgrade|uninstall|delete|rollback", FAR, unless="--dry-run"),
    _rule("aws", FAR, words=r"(?:delete|terminate|remove|destroy|purge|put|create|update|modify|stop|reboot|run)-"
          r"[\w-]+|rm|rb|mv|sync|cp"),
    _rule("gcloud|az|heroku|flyctl|fly|doctl|vercel|netlify|firebase", FAR,
          words=r"(?:\w+:)?(?:delete|destroy|remove|deploy|create|update|reset|stop|purge)"),
    _rule("dropdb|dropuser|mysqladmin", FAR),
    _rule("psql|mysql|mariadb|sqlite3|sqlcmd|clickhouse-client|duckdb", "destroys a database's data",
          words=r"(?is).*\b(?:drop\s+(?:table|database|schema|index|view|user|role)|truncate\s|delete\s+from|alter\s+table|update\s+\w+\s+set)\b.*"),
    _rule("redis-cli", FAR, words=r"(?i)flushall|flushdb|shutdown|config"),
    _rule("mongo|mongosh", FAR, words=r"(?s).*(?:dropDatabase|\.drop\(|deleteMany|remove\().*"),
    _rule("nc|ncat|netcat|socat", "gives a shell to the network", "-e --exec -c --sh-exec"),
    _rule("socat", "gives a shell to the network", words=r"(?i).*(?:exec|system):.*"),
    # what governs agents
    _rule("git commit|merge|push|am|rebase|cherry-pick|revert", CONTROLS, "--no-verify", lasting=False),
    _rule("git commit", CONTROLS, "-n", lasting=False),
    _rule("git config", CONTROLS, words=r"(?i)(?:"
          r"core\.(?:hookspath|fsmonitor|sshcommand|editor|pager|worktree|attributesfile)|alias\..*|filter\..*|diff\..*|merge\..*\.driver|credential\..*|include.*\.path|url\..*|protocol\..*|gpg\..*)",
          unless="--get --get-all --get-regexp --list -l get list", lasting=False),
    _rule("claude", CONTROLS, "--dangerously-skip-permissions --allow-dangerously-skip-permissions", lasting=False),
    _rule("codex", CONTROLS, "--yolo --dangerously-bypass-approvals-and-sandbox --full-auto", lasting=False),
    _rule("gemini|qwen", CONTROLS, "-y --yolo", lasting=False),
    _rule("chattr|lsattr", CONTROLS, "-i +i", words=r".*(?:\.orchestration|\.git|\.claude|\.intentignore).*",
          lasting=False),
    _rule("pkill|killall|kill", CONTROLS, words=r".*\bremit.*", lasting=False),
    _rule("tmux|screen kill-server", MACHINE, lasting=False),
)  # fmt: skip

PROGRAMS = frozenset(name for rule in RULES for name in rule.programs)

VALUED: dict[str, str] = {
    "git": "mFCcSt",
    "sudo": "",
}
"""Short options that take the rest of their bundle, or the next word, for a value: it names no option."""

WRAPPERS = names(
    "sudo doas su env xargs find nohup nice ionice timeout time setsid stdbuf command builtin exec eval sh bash dash "
    "zsh ksh parallel watch flock fd fdfind chronic unbuffer busybox ssh docker podman kubectl caffeinate script entr "
    "! then do else if while until {"
)
"""They run what stands behind them, or stand before a command."""

SHELLS = names("sh bash dash zsh ksh fish ash")
INTERPRETERS = SHELLS | names("python python3 python2 perl ruby node nodejs php deno bun lua osascript pwsh powershell")
FETCHERS = names("curl wget fetch aria2c http https xh lwp-download GET ftp")

SENDERS = names(
    "curl wget nc ncat netcat socat ssh scp sftp rsync ftp telnet nslookup dig host ping http https xh mail mailx "
    "sendmail mutt aws gsutil gcloud rclone gh glab az s3cmd b2 ngrok cloudflared openssl drill kdig whois logger tftp "
    "lftp croc magic-wormhole"
)
"""They send what they are given to another machine."""

ENVIRONMENT = names("env printenv set export declare")
"""Their output holds what the environment keeps, tokens included."""

DESTROYERS = names("rm rmdir shred unlink chmod chown chgrp mv truncate srm")
"""Of the whole of a place they leave nothing, or nothing that can be used."""

PLACES = (
    r"/|/\*|(?:~|\$HOME|\$\{HOME\})(?:/|/\*|/\.\*|/\.(?:ssh|config|local|gnupg|aws|claude|codex|gemini)(?:/.*)?)?"
    r"|/(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|usr|var|Users|System|Library|Applications)(?:/\*?|/[^/]*/?)?"
    r"|(?:.*/)?\.git(?:/|/\*|/(?:objects|refs|hooks|logs|config|HEAD|index|remit)(?:/.*)?)?"
)
"""Places whose loss nobody wants, from whatever folder they are named."""

HERE = r"\.|\*|\.\*|\.\.(?:/.*)?|\.\[!\.\]\*|\{\*,\.\*\}|\$PWD(?:/\*?)?|\$\(pwd\)(?:/\*?)?|\$\{PWD\}(?:/\*?)?"
"""All of the folder that one is in, or what is above it."""

CONTROL_FILES = (
    r"\.orchestration/|\.intentignore|\.git/(?:hooks|config|remit)|\.claude/(?:settings|hooks)|\.codex/(?:config|hooks)|"
    r"\.gemini/settings|\.cursor/hooks|\.local/(?:state|share)/remit"
)
CHANGES = r"['\"][wax]b?\+?['\"]|write|unlink|remove|rename|rmtree|truncate|replace|\bdump\(|\bcopy|\bmove|chmod|['\"]>"
"""What code says that changes a file."""

EDITORS = names(
    "vim vi nvim ex ed emacs nano chattr setfattr yq jq patch sqlite3 sed awk gawk perl ruby install busybox"
)
