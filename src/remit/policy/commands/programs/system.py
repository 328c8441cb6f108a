"""The machine: programs that report on the system, or change its disks, users, services and processes.

Source: the manuals of procps 4.0 and util-linux 2.38, read 2026-11.
"""

from collections.abc import Sequence

from remit.policy.commands.options import OptionRow, harmless_row, parse_options
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
)
from remit.policy.commands.words import UnprovedCommand, Word


def read_date(name: str, words: Sequence[Word]) -> CommandEffects:
    """Refuse an operand that is no format: such an operand sets the clock."""
    row = OptionRow(
        "uRj", "dr", "utc universal iso-8601 rfc-3339 rfc-email", "date reference", attached="I", operands=1
    )
    parsed = parse_options(name, row, words)
    if not all(word.text.startswith("+") for word in parsed.operands):
        raise UnprovedCommand("`date` with an operand that is no format sets the clock")
    return CommandEffects((name,))


KILLS_ALL = DangerRule("", CHANGES_MACHINE, unless="-l --list -0", is_irreversible=False)
KILLS_REMIT = DangerRule("", EVADES_CONTROL, words=r".*\bremit.*", is_irreversible=False)
ACTS_AS_OTHER = (DangerRule("", "acts as another user, or the administrator"),)

PROGRAMS = rows({
    "cal whoami id groups users who w logname tty uname arch nproc uptime free lscpu lsblk ps pgrep pidof locale "
        "getconf sw_vers": Program(reads=harmless_row()),
    "hostname": Program(reads=OptionRow("fsidIA", "", "all-ip-addresses domain fqdn ip-address long short",
        operands=0)),
    "date": Program(reads=read_date),
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
    "systemctl": Program(danger=(DangerRule("", CHANGES_MACHINE, unless="status show list-units list-unit-files "
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
    "top": Program(stdin=StdinRule(ANY_NUMBER, "b")),
    "daemon forever daemonize pm2 systemd-run start-stop-daemon": Program(background=ANY_USE),
})  # fmt: skip
