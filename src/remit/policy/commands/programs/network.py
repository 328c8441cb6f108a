"""The network: programs to fetch from remote machines, send to them, or run commands on them.

Source: the manuals of curl 8.5, GNU Wget 1.21 and OpenSSH 9.6, read 2026-11.
"""

import posixpath
from collections.abc import Sequence

from remit.policy.commands.programs.row import ANY_NUMBER, DangerRule, Program, StdinRule, Writes, rows, write_all
from remit.policy.commands.words import GLOB_CHARACTER, OptionRow, UnprovedCommand, Word, parse_options

CURL_OPTIONS = OptionRow("sSLfgikIvN46qOJRG#k0", "oHAbeurmDc",
    "silent show-error location fail globoff include insecure head verbose compressed remote-name create-dirs "
    "no-progress-meter progress-bar http1.1 http2 fail-with-body ipv4 ipv6",
    "output header user-agent cookie referer user range max-time connect-timeout retry retry-delay cookie-jar "
    "dump-header output-dir")  # fmt: skip


def write_curl(name: str, words: Sequence[Word]) -> Writes:
    parsed = parse_options(name, CURL_OPTIONS, words)
    asked = (*parsed.operands, *parsed.values("-H", "--header", "-b"))
    if parsed.has_option("-J") or not all(word.is_literal for word in asked):
        raise UnprovedCommand("what `curl` asks for, or of whom, is not in the text")
    outputs = list(parsed.values("-o", "--output"))
    if any("#" in word.text for word in outputs):
        raise UnprovedCommand("`curl` puts a part of the URL for a `#1` in the name of its output")
    outputs = [word for word in outputs if word.text != "-"]
    if parsed.has_option("-O", "--remote-name"):
        outputs += [Word(name_in_url(word.text)) for word in parsed.operands]
    for folder in parsed.values("--output-dir")[:1]:
        outputs = [Word(posixpath.join(folder.text, word.text), is_literal=folder.is_literal) for word in outputs]
    outputs += [w for w in parsed.values("-c", "--cookie-jar", "-D", "--dump-header") if w.text != "-"]
    return write_all(name, outputs)


WGET_OPTIONS = OptionRow("qvcN46", "OPtTUoa",
    "quiet verbose no-verbose continue no-check-certificate timestamping show-progress",
    "output-document directory-prefix tries timeout header user-agent output-file append-output")  # fmt: skip


def write_wget(name: str, words: Sequence[Word]) -> Writes:
    given = [Word("--no-verbose") if word.text == "-nv" and word.is_literal else word for word in words]
    parsed = parse_options(name, WGET_OPTIONS, given)
    if not all(word.is_literal for word in parsed.operands):
        raise UnprovedCommand("what `wget` asks for is not in the text")
    outputs = list(parsed.values("-O", "--output-document"))
    if not outputs:
        folder = "".join(word.text for word in parsed.values("-P", "--directory-prefix"))
        outputs = [Word(posixpath.join(folder, name_in_url(word.text))) for word in parsed.operands]
    outputs += parsed.values("-o", "-a", "--output-file", "--append-output")
    return write_all(name, (word for word in outputs if word.text != "-"))


def name_in_url(url: str) -> str:
    found = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    if not found or GLOB_CHARACTER.search(found) or "{" in found:
        raise UnprovedCommand(f"the name of what is at {url!r} is not in the text")
    return found


WIRE = StdinRule(ANY_NUMBER, "z")

GIVES_SHELL = DangerRule("", "gives a shell to the network", "-e --exec -c --sh-exec")

PROGRAMS = rows({
    "curl": Program(writes=write_curl, roles="fetcher sender"),
    "wget": Program(writes=write_wget, roles="fetcher sender"),
    "nc ncat netcat": Program(danger=(GIVES_SHELL,), stdin=WIRE, roles="sender"),
    "socat": Program(danger=(GIVES_SHELL, DangerRule("", "gives a shell to the network",
        words=r"(?i).*(?:exec|system):.*")), stdin=WIRE, roles="sender"),
    "ssh": Program(stdin=StdinRule(2, "N V G Q O", "", "i p l o F J L R D b c E e m S W w B I"),
        roles="wrapper sender"),
    "GET aria2c fetch lwp-download": Program(roles="fetcher"),
    "ftp": Program(stdin=WIRE, roles="fetcher sender"),
    "http https xh": Program(roles="fetcher sender"),
    "b2 cloudflared croc dig drill glab gsutil host kdig lftp logger magic-wormhole mail mailx mutt ngrok nslookup "
        "ping rclone s3cmd sendmail tftp whois": Program(roles="sender"),
    "sftp": Program(stdin=StdinRule(ANY_NUMBER, "b"), roles="sender"),
    "telnet": Program(stdin=WIRE, roles="sender"),
})  # fmt: skip
