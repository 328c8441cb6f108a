"""Devices that keep nothing are operands like any other; what may be put in their place, or is a disk, is not."""

import pytest

from remit.policy.commands import analyse

READS = (
    "echo x | tee /dev/null",
    "echo x | tee -a /dev/null",
    "echo x | tee /dev/stderr | grep x",
    "echo x | tee /dev/fd/2 /dev/tty",
    "echo x > /dev/zero; echo x >> /dev/full; echo x >/dev/fd/1",
    "echo x > /dev/./null 2>//dev/null",
    "cd /dev && echo x > null",
    "dd if=README.md of=/dev/null",
    "tar cf /dev/null src",
    "cp README.md /dev/stdout",
    "cp -fv README.md /dev/null",
    "sort -o /dev/stdout README.md",
    "uniq README.md /dev/stdout",
    "shuf -o /dev/null README.md",
    "iconv -f utf8 -o /dev/stdout README.md",
    "git diff --output=/dev/null",
    "git archive -o /dev/null HEAD",
    "find . -fprint /dev/null",
)

FETCHES = (
    "wget -q -O /dev/null http://127.0.0.1:9/",
    "curl -sS -o /dev/stdout http://127.0.0.1:9/",
)

UNPROVED = (
    # The device gets other rights, or another file takes its place.
    "cp -p README.md /dev/null",
    "cp --remove-destination README.md /dev/null",
    "install README.md /dev/null",
    "rm /dev/null",
    "ln -sf x /dev/null",
    "chmod 600 /dev/null",
    "sed -i s/a/b/ /dev/null",
    "gzip /dev/null",
    # No device that keeps nothing.
    "echo x > /dev/shm/x",
    "echo x | tee /dev/mem",
    "echo x | tee /dev/sda",
    "echo x | tee /dev/../etc/passwd",
    "echo x | tee /dev/nul*",
    "echo x | tee /proc/self/fd/1",
    "cd /dev && echo x > sda",
)

DANGEROUS = ("dd if=README.md of=/dev/sda", "echo x > /dev/sda", "dd if=x of=//dev/mem", "mv README.md /dev/null")


@pytest.mark.parametrize("command", READS)
def test_writing_to_a_harmless_device_is_reading(command: str) -> None:
    assert analyse(command).outcome == "read_only"


@pytest.mark.parametrize("command", FETCHES)
def test_what_is_fetched_into_a_device_writes_no_file(command: str) -> None:
    found = analyse(command)
    assert (found.outcome, found.writes) == ("literal_writes", ())


@pytest.mark.parametrize("command", UNPROVED)
def test_what_may_replace_a_device_or_keep_something_there_is_not_proved(command: str) -> None:
    assert analyse(command).outcome == "unknown"


@pytest.mark.parametrize("command", DANGEROUS)
def test_disks_and_the_loss_of_a_device_stay_dangerous(command: str) -> None:
    assert analyse(command).outcome == "dangerous"


def test_beside_a_device_a_file_is_a_file() -> None:
    assert [write.path for write in analyse("echo x | tee /dev/null src/a").writes or ()] == ["src/a"]
