"""The machine: programs that report on the system, or change its disks, users, services and processes.

Source: the manuals of procps 4.0 and util-linux 2.38, read 2026-11.
"""

from collections.abc import Sequence

from remit.policy.commands.programs.row import (
    ANY_NUMBER,
    ANY_USE,
    CHANGES_MACHINE,
    CHANGES_USERS,
    EVADES_CONTROL,
    WORKS_ON_DISKS,
    CommandEffects,
    DangerRule,
    Program,
    StdinRule,
    rows,
    verbs_that_read,
)
from remit.policy.commands.words import OptionRow, UnprovedCommand, Word, harmless_row, parse_options


def read_date(name: str, words: Sequence[Word]) -> CommandEffects:
    row = OptionRow(
        "uRj", "dr", "utc universal iso-8601 rfc-3339 rfc-email", "date reference", attached="I", operands=1
    )
    parsed = parse_options(name, row, words)
    if not all(word.text.startswith("+") for word in parsed.operands):
        raise UnprovedCommand("`date` with an operand that is no format sets the clock")
    return CommandEffects((name,))


SERVICE_VERBS = (
    "|status|show|list-units|list-unit-files|list-timers|list-sockets|list-jobs|list-dependencies|is-active|is-enabled|"
    "is-failed|cat|get-default"
)
SERVICE_OPTIONS = OptionRow("alqr", "notp", "all full quiet recursive no-pager no-legend plain user system value "
    "failed reverse after before show-types with-dependencies", "lines output type state property")  # fmt: skip
"""Without `-H`, `-M`, which reach other machines."""

JOURNAL = OptionRow("faexrqkmlN", "nuptSUgo", "follow all pager-end catalog reverse quiet dmesg merge no-pager no-full "
    "full no-tail no-hostname utc user system list-boots disk-usage header fields list-namespaces", "lines unit "
    "user-unit priority identifier since until grep output facility case-sensitive output-fields directory boot",
    attached="b", takes_number=True)  # fmt: skip
"""Without what removes or rotates journals, and without a file for the cursor."""

SHOWS = OptionRow()
LINK_VERBS = {"addr|address|a|link|l|route|r|neigh|n|rule|maddr": OptionRow(operands=0)} | {
    f"{thing} {verb}": SHOWS
    for thing in ("addr", "address", "a", "link", "l", "route", "r", "neigh", "n", "rule")
    for verb in ("show", "list", "ls", "s", "get")
}

KILLS_ALL = DangerRule("", CHANGES_MACHINE, unless="-l --list -0", is_irreversible=False)
KILLS_REMIT = DangerRule("", EVADES_CONTROL, words=r".*\bremit.*", is_irreversible=False)
ACTS_AS_OTHER = (DangerRule("", "acts as another user, or the administrator"),)

PROGRAMS = rows({
    "cal whoami id groups users who w logname tty uname arch nproc uptime free lscpu lsblk ps pgrep pidof locale "
        "getconf sw_vers": Program(reads=harmless_row()),
    "hostname": Program(reads=OptionRow("fsidIA", "", "all-ip-addresses domain fqdn ip-address long short",
        operands=0)),
    "date": Program(reads=read_date),
    "ss": Program(reads=OptionRow("aehilmnoprstuwxBHOVZ046bzMdS", "Af", "all extended info listening memory numeric "
        "options processes summary tcp udp unix raw ipv4 ipv6 no-header oneline resolve bpf context", "query socket "
        "family")),
    "lsof": Program(reads=OptionRow("abChlMnNOPRtUvVwWX", "cdpu", attached="FLSTgiors")),
    "netstat": Program(reads=OptionRow("aceFgilMnNoprstuvwWx46C", "", "all continuous extend groups interfaces "
        "listening masquerade numeric numeric-hosts numeric-ports programs raw route statistics symbolic tcp timers "
        "udp unix verbose wide")),
    "fuser": Program(reads=OptionRow("auvI46", "n", "all user verbose", "namespace")),
    "pstree pwdx lsmod lsusb lsns vmstat mpstat last getent numastat lsmem": Program(reads=harmless_row()),
    "dmesg": Program(reads=OptionRow("dHkLPrTtuwWxe", "lf", "color ctime decode facility human kernel level nopager "
        "notime reltime show-delta userspace follow", "time-format")),
    "ip": Program(reads=verbs_that_read(LINK_VERBS, OptionRow("46sdobrj", "", "brief json oneline statistics stats "
        "details color pretty resolve"))),
    "ifconfig": Program(reads=OptionRow("a", operands=0)),
    "arp": Program(reads=OptionRow("aenv", operands=0)),
    "journalctl": Program(reads=JOURNAL),
    "timedatectl hostnamectl loginctl": Program(reads=verbs_that_read({"|status|show|list-sessions|list-users":
        OptionRow("al", "np", "all full no-pager no-legend value", "property lines")})),
    "fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard hdparm cryptsetup mkswap swapon swapoff losetup "
        "lvremove vgremove pvremove mdadm badblocks diskutil": Program(danger=(DangerRule("", WORKS_ON_DISKS),)),
    "mount umount chroot pivot_root": Program(danger=(DangerRule("", WORKS_ON_DISKS, unless="-l --version --help"),)),
    "useradd userdel usermod adduser deluser groupadd groupdel groupmod gpasswd passwd chpasswd visudo chsh chfn vipw "
        "dscl": Program(danger=(DangerRule("", CHANGES_USERS),)),
    "sudo": Program(danger=ACTS_AS_OTHER,
        stdin=StdinRule(valued="C D R T U g h p u", runs_rest=True), roles="runner"),
    "doas": Program(danger=ACTS_AS_OTHER,
        stdin=StdinRule(valued="C u", runs_rest=True), roles="runner"),
    "su": Program(danger=ACTS_AS_OTHER, roles="runner"),
    "pkexec runuser sudoedit": Program(danger=ACTS_AS_OTHER),
    "shutdown reboot halt poweroff telinit modprobe insmod rmmod kexec setenforce setcap "
        "update-alternatives": Program(danger=(DangerRule("", CHANGES_MACHINE),)),
    "init": Program(danger=(DangerRule("", CHANGES_MACHINE, words=r"[06]"),)),
    "systemctl": Program(reads=verbs_that_read({SERVICE_VERBS: SERVICE_OPTIONS}, SERVICE_OPTIONS),
        danger=(DangerRule("", CHANGES_MACHINE, unless="status show list-units list-unit-files "
        "list-timers list-sockets is-active is-enabled is-failed cat --version --help help get-default "
        "list-dependencies", is_irreversible=False),)),
    "service": Program(danger=(DangerRule("", CHANGES_MACHINE, words="start|stop|restart|reload",
        is_irreversible=False),)),
    "launchctl": Program(danger=(DangerRule("", CHANGES_MACHINE, unless="list print help", is_irreversible=False),)),
    "crontab": Program(danger=(DangerRule("", CHANGES_MACHINE, unless="-l"),
        DangerRule("", CHANGES_MACHINE, "-r -e -i"))),
    "kill": Program(danger=(DangerRule("", CHANGES_MACHINE, words="-1"), KILLS_REMIT)),
    "killall": Program(danger=(KILLS_ALL, KILLS_REMIT)),
    "killall5": Program(danger=(KILLS_ALL,)),
    "pkill": Program(danger=(KILLS_REMIT,)),
    "sysctl": Program(danger=(DangerRule("", CHANGES_MACHINE, "-w -p --write --load --system"),)),
    "iptables ip6tables nft ufw firewall-cmd pfctl": Program(danger=(DangerRule("", CHANGES_MACHINE,
        unless="-L -S --list status --state list"),)),
    "nvram csrutil spctl defaults": Program(danger=(DangerRule("", CHANGES_MACHINE, unless="read status"),)),
    "top": Program(reads=OptionRow("bceiHsS1", "dnpouUEw", required="-b"), stdin=StdinRule(ANY_NUMBER, "b")),
    "daemon forever daemonize pm2 systemd-run start-stop-daemon": Program(background=ANY_USE),
})  # fmt: skip
