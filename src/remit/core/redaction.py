"""Redaction of secrets by token shapes, telling names and places; file names that suggest secrets.

Every repeat is bounded, which keeps matching fast on any text: a team's own patterns get limits too. In patterns of
places the first group stays, and the rest is masked.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from operator import is_
from typing import Any, TypeVar, cast

from msgspec import UNSET, Struct
from msgspec.structs import astuple, replace

NO_PLACEHOLDER = r"(?!\[redacted\]|[\"']?(?:\$[\w({]|\$\{|%\w|<|\{\{|-))"
"""A masked value, a variable, a placeholder, or the next option."""
SECRET_VALUE = NO_PLACEHOLDER + r"(?:'[^'\n]{1,1024}'|\"[^\"\n]{1,1024}\"|[^\s'\"|;&()<>]{1,1024})"
BLANKS = r"[ \t]{1,8}"
SAME_COMMAND = r"[^\n|;&]{0,300}?"
"""Words of the same simple command."""
TELLING_OPTION = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|api[-_]?key|access[-_]?key|secret[-_]?key|auth[-_]?key|"
    r"client[-_]?secret|credentials?)"
)
VENDOR_TOKENS = (
    r"\bdckr_[po]at_[A-Za-z0-9_-]{20,64}",
    r"\bAT[AC]TT3x[A-Za-z0-9_=-]{20,512}",
    r"\bsq0(?:csp|atp|idp)-[A-Za-z0-9_-]{20,64}",
    r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}",
    r"\bdapi[a-f0-9]{32}\b",
    r"\bPMAK-[A-Za-z0-9-]{50,70}",
    r"\blin_(?:api|oauth)_[A-Za-z0-9]{30,70}",
    r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{30,80}",
    r"\bhv[sbr]\.[A-Za-z0-9_-]{20,300}",
    r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}",
    r"\bgl(?:sa|c)_[A-Za-z0-9+/=_]{30,300}",
    r"\brubygems_[a-f0-9]{48}",
    r"\bsntry[su]_[A-Za-z0-9+/=_-]{30,300}",
    r"\b(?:gsk|r8)_[A-Za-z0-9]{30,60}",
    r"\bxai-[A-Za-z0-9]{60,100}",
    r"\bkey-[0-9a-f]{32}\b",
    r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{32,35}",
    r"https://(?:canary\.|ptb\.)?discord(?:app)?\.com/api/webhooks/[0-9]{10,25}/[A-Za-z0-9_-]{20,100}",
)
"""Vendor tokens known by their own shape."""
VALUE_END = r"(?![^\s'\"])"
AUTHORIZATION_HEADER = r"(\bAuthorization\\?['\"]?\s{0,4}[:=]\s{0,4}\\?['\"]?"
MASK_EXCLUSION = r"(?!\[redacted\]|\$|<|\{)"
CASELESS_PLACES = (
    # tool --password VALUE; not --password-stdin, --no-password, --ask-pass, --with-token
    rf"((?<![\w-])--?(?!(?:no|with|use|ask|prompt|show|print|skip|allow)[-_])(?:[a-z0-9]{{1,20}}[-_]){{0,4}}{TELLING_OPTION}{BLANKS})"
    rf"(?!id=){SECRET_VALUE}",
    rf"((?<![\w-])-(?:src|dest)?(?:storepass|keypass){BLANKS}){SECRET_VALUE}",
    rf"((?<![\w-])-pass(?:in|out)?{BLANKS}['\"]?pass:){SECRET_VALUE}",
    rf"(\bconfig(?:ure)?{BLANKS}set{BLANKS}(?:--?[\w-]{{1,20}}{BLANKS})?\S{{0,100}}?{TELLING_OPTION}{BLANKS}){SECRET_VALUE}",
    AUTHORIZATION_HEADER
    + r"(?:Basic|Bearer|ApiKey|Api-Key|Token|Negotiate|NTLM|key)[ \t=]{1,4})"
    + MASK_EXCLUSION
    + r"[^\s'\"\\]{1,4096}",
    AUTHORIZATION_HEADER + rf"(?:Digest|AWS4-HMAC-SHA256|OAuth){BLANKS})" + MASK_EXCLUSION + r"[^\r\n']{1,4096}",
    AUTHORIZATION_HEADER + r")(?=[^\s'\"]{0,200}\d)" + MASK_EXCLUSION + r"[A-Za-z0-9+/=._~-]{12,4096}",
    r"(\b(?:Set-)?Cookie:[ \t]{0,4}(?=[\w.-]{1,100}=))(?!\[redacted\])[^\r\n'\"]{1,4096}",
    r"(\b(?:machine\s{1,8}\S{1,200}|default(?=\s{1,16}login\s))\s{1,16}(?:login\s{1,8}\S{1,200}\s{1,16})?"
    r"(?:account\s{1,8}\S{1,200}\s{1,16})?password\s{1,8})(?!\[redacted\])\S{1,1024}",
    r"([?&](?:key|sig|signature|auth|token|code)=)(?=[^&\s]{0,200}\d)(?!\[redacted\])[A-Za-z0-9+/%=._~-]{16,2048}",
    rf"(--from-literal[= \t][\w.-]{{1,100}}=){SECRET_VALUE}",
    rf"((?:--with-token|--password-stdin|-S)[ \t]{{0,8}}<<<[ \t]{{0,8}}){SECRET_VALUE}",
)
EXACT_PLACES = (
    # curl -u user:VALUE; not `docker run -u 1000:1000`, `-u node:node`, `-u http://…`, `-u C:\…`
    r"((?<![\w-])(?:-u|-U|--user|--proxy-user)(?:[ \t]{0,8}|=)['\"]?(?P<user>[A-Za-z0-9_.@+-]{1,100}):)"
    rf"(?!\[redacted\]|\$|<|[/\\]|[0-9]{{1,6}}{VALUE_END}|(?P=user){VALUE_END})[^\s'\"|;&]{{1,1024}}",
    rf"(\b(?:mysql|mariadb)\w{{0,16}}(?:-\w{{1,16}})?\b{SAME_COMMAND}[ \t]-p){SECRET_VALUE}",
    rf"(\b(?:sshpass|(?:docker|podman|buildah|az){BLANKS}login|helm{BLANKS}registry{BLANKS}login|mongo\w{{0,10}}|twine{BLANKS}upload)"
    rf"{SAME_COMMAND}[ \t]-p[ \t]{{0,8}}){SECRET_VALUE}",
    rf"(\bredis-cli\b{SAME_COMMAND}[ \t]-a[ \t]{{0,8}}){SECRET_VALUE}",
    rf"(\bldap(?:search|modify|add|delete|passwd|whoami)\b{SAME_COMMAND}[ \t]-w[ \t]{{0,8}}){SECRET_VALUE}",
    rf"(\bopenssl{BLANKS}enc\b{SAME_COMMAND}[ \t]-k{BLANKS}){SECRET_VALUE}",
    rf"(\bhtpasswd{BLANKS}-\w{{0,6}}b\w{{0,6}}{BLANKS}\S{{1,200}}{BLANKS}\S{{1,100}}{BLANKS}){SECRET_VALUE}",
    rf"(\b(?:smbclient|rpcclient)\b{SAME_COMMAND}[ \t]-U[ \t]{{0,8}}['\"]?[^\s%'\"]{{1,100}}%)"
    r"(?!\[redacted\])[^\s'\"|;&]{1,1024}",
    rf"(\b[A-Z0-9_]{{0,60}}(?:PASSWORD|PASSWD|PASSPHRASE)=){SECRET_VALUE}",
    r"(\b[A-Z0-9_]{0,60}_(?:PASS|PWD|AUTH|SECRET|TOKEN|KEY)=)"
    rf"(?!(?:true|false|yes|no|none|null|[0-9]{{1,5}})(?!\w)|/)(?=[^\s]{{4}}){SECRET_VALUE}",
    r"(\b[a-z_]{0,30}auth\\?['\"]?\s{0,4}[:=]\s{0,4}\\?['\"]?)(?=[^\s'\"]{0,200}[0-9])(?=[^\s'\"]{0,200}[A-Z])"
    r"[A-Za-z0-9+/]{8,2048}={0,2}",
    r"(\bhttps?://)(?=[^\s/:@]{0,300}\d)(?!\[redacted\])[^\s/:@?#'\"]{16,300}(?=@)",
    rf"(\b(?:echo|printf){BLANKS}(?:-[neE]{{1,3}}{BLANKS})?){SECRET_VALUE}"
    r"(?=\s{0,8}\|[^\n|;]{0,200}(?:--password-stdin|--with-token|--passphrase-fd|\bsudo[ \t][^\n|;]{0,100}-S))",
)
SECRET_PLACES = (*(re.compile(p, re.IGNORECASE) for p in CASELESS_PLACES), *(re.compile(p) for p in EXACT_PLACES))
PLACELESS_TEXT = re.compile(r"[^\s=:@]*")
"""Paths, ids and hashes: without a blank or these signs a text holds no secret place."""
PLACE_HINT = re.compile(
    r"-[uUpawkbSs]|pass|pwd|secret|token|key|auth|cookie|credential|sig|code=|PASS|_PWD|://|from-literal", re.IGNORECASE
)
"""Texts without a hint hold no secret place: most texts of a record are short names, and skip the patterns."""
MASK = "[redacted]"
MAX_TEXT_CHARS = 16_384
"""Maximum length of written text: more would have to be searched, and tells little."""
CUT_MARK = " [cut]"
MIN_MASKED_CHARS = 6
"""Length from which a text under a telling name is masked whole."""
PRIVATE_KEY = (
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]{0,16384}?"
    r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
)
"""The one secret of several lines."""
TOKEN_PATTERNS = (
    r"\b(?:sk|pk|rk)-(?:ant-|proj-|live-|test-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,256}",
    r"\b(?:sk|pk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,256}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,256}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,256}",
    r"\bgl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_.-]{16,256}",
    r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,64}",
    r"\bya29\.[A-Za-z0-9_-]{20,1024}",
    r"\bGOCSPX-[A-Za-z0-9_-]{20,64}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,512}",
    r"\bxapp-[A-Za-z0-9-]{10,512}",
    r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9_/-]{20,200}",
    r"\bnpm_[A-Za-z0-9]{30,64}",
    r"\bpypi-[A-Za-z0-9_-]{50,1024}",
    r"\bhf_[A-Za-z0-9]{30,64}",
    r"\bdop_v1_[a-f0-9]{60,70}",
    r"\bSG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}",
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,70}",
    r"\beyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{0,4000}",
    PRIVATE_KEY,
)
TELLING_NAME = (
    r"(?:pass(?:word|wd|phrase)|pwd(?!['\"]?\s{0,4}[=:]\s{0,4}['\"]?/)|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|"
    r"auth[_-]?key|signing[_-]?key|encryption[_-]?key|credential)s?"
)
ASSIGNED_SECRET = (
    rf"(?P<name>{TELLING_NAME}[A-Za-z0-9_]{{0,64}}"
    r"['\"]?\s{0,16}[=:]\s{0,16}['\"]?)(?!\[redacted\])(?P<value>[^\s'\"&;|]{6,4096})"
)
QUOTED_SECRET = (
    rf"(?P<name>{TELLING_NAME}[A-Za-z0-9_]{{0,64}}['\"]?\s{{0,16}}[=:]\s{{0,16}}"
    r"(?P<quote>['\"]))(?!\[redacted\])(?P<value>[^'\"\n\\]{6,1024})(?=(?P=quote))"
)
URL_CREDENTIAL = (
    r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)(?!\[redacted\])(?P<password>[^\s/@]{1,200})(?=@)"
)
BEARER_CREDENTIAL = r"(?P<scheme>\b(?:Bearer|Basic|token)\s{1,16})(?P<credential>[A-Za-z0-9+/=._~-]{12,4096})"
RANDOM_VALUE = (
    r"(?P<name>\b[A-Za-z_][A-Za-z0-9_.-]{1,64}['\"]?\s{0,4}[=:]\s{0,4}['\"]?)"
    r"(?P<value>[A-Za-z0-9+/_=-]{24,512})(?![A-Za-z0-9+/_=.-])"
)
"""A name and a possibly random value; `looks_random` decides."""
TOKEN_SHAPES = re.compile("|".join((*TOKEN_PATTERNS, *VENDOR_TOKENS)))
ESCAPED_BREAK = re.compile(r"(\\[nrt])")
"""An escaped line end or tab: its letter hides where a word begins."""
NAMED_SECRETS = (
    re.compile(QUOTED_SECRET, re.IGNORECASE),
    re.compile(ASSIGNED_SECRET, re.IGNORECASE),
    re.compile(URL_CREDENTIAL),
    re.compile(BEARER_CREDENTIAL, re.IGNORECASE),
)
ASSIGNMENT = re.compile(RANDOM_VALUE)
KEY_NAME = re.compile(rf"[A-Za-z0-9_.-]{{0,64}}{TELLING_NAME}", re.IGNORECASE)
DIGEST_VALUE = re.compile(r"(?:sha(?:1|224|256|384|512)|md5|blake[23][bs]?)[-:=][A-Za-z0-9+/=_-]*", re.IGNORECASE)
HARMLESS_NAME = re.compile(
    r"(?:sha\d*|hash|digest|integrity|checksum|etag|commit|revision|rev|base64|root|leaf)\W*\Z", re.I
)
ID_OR_HASH = re.compile(r"(?:sha256:)?[0-9a-f-]{1,80}")
"""Ids and hashes, the most frequent texts of records, which match no token shape."""
CLEAN_TEXTS: set[str] = set()
"""Short texts known to hold no secret: records repeat names. May be emptied at any time."""
MAX_CLEAN_TEXTS = 4096
MAX_CLEAN_CHARS = 128
MAX_REPEATED_TEXTS = 64
"""Longer texts that are remembered with their masked form: the records of one call repeat its command."""
MIN_RANDOM_BITS = 3.7
"""Shannon entropy per character above which a value of mixed letters and digits counts as random; words and identifiers
lie below.
"""
NUMBER_TYPES = (int, float)
T = TypeVar("T", bound=Struct)


def redact(text: str, team_patterns: Sequence[re.Pattern[str]] = ()) -> str:
    """Replace secrets in `text` by `[redacted]`, keeping the surrounding text readable.

    `team_patterns` are masked whole.
    """
    if not (ID_OR_HASH.fullmatch(text) or text in CLEAN_TEXTS):
        masked = mask_secrets(text)
        if masked == text and len(text) <= MAX_CLEAN_CHARS:
            if len(CLEAN_TEXTS) >= MAX_CLEAN_TEXTS:
                CLEAN_TEXTS.clear()
            CLEAN_TEXTS.add(text)
        text = masked
    for pattern in team_patterns:
        text = pattern.sub(MASK, text)
    return text


@lru_cache(MAX_REPEATED_TEXTS)
def mask_secrets(text: str) -> str:
    masked = mask_plain_secrets(text)
    if ESCAPED_BREAK.search(masked):
        masked = "".join(map(mask_plain_secrets, ESCAPED_BREAK.split(masked)))
    return masked


def mask_plain_secrets(text: str) -> str:
    masked = TOKEN_SHAPES.sub(MASK, text)
    if PLACELESS_TEXT.fullmatch(masked):
        return masked
    for pattern in (*SECRET_PLACES, *NAMED_SECRETS) if PLACE_HINT.search(masked) else NAMED_SECRETS:
        masked = pattern.sub(lambda match: match[1] + MASK, masked)
    return ASSIGNMENT.sub(
        lambda m: m[0] if HARMLESS_NAME.search(m["name"]) or not looks_random(m["value"]) else m["name"] + MASK, masked
    )


def looks_random(value: str) -> bool:
    mixed = any(map(str.isupper, value)) and any(map(str.islower, value)) and sum(map(str.isdigit, value)) > 1
    # In paths separators are as frequent as in words: base64 has a slash per 64 characters.
    if not mixed or DIGEST_VALUE.match(value) or len(re.findall(r"[/_-]", value)) * 10 >= len(value):
        return False
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts) >= MIN_RANDOM_BITS


def redact_value(value: Any, team_patterns: Sequence[re.Pattern[str]] = ()) -> Any:
    """Redact a JSON value, keys included; a text under a name such as `password` is masked whole.

    Texts are truncated at MAX_TEXT_CHARS, and characters outside UTF-8 replaced.
    """
    match value:
        case str():
            if not team_patterns and value.isascii() and (value in CLEAN_TEXTS or ID_OR_HASH.fullmatch(value)):
                return value
            is_long = len(value) > MAX_TEXT_CHARS + len(CUT_MARK)
            masked = redact(value[:MAX_TEXT_CHARS] + CUT_MARK if is_long else value, team_patterns)
            return masked if masked.isascii() else masked.encode("utf-8", "replace").decode()
        case Struct():
            return redact_struct(value, team_patterns)
        case tuple():
            items = cast("tuple[Any, ...]", value)
            redacted = [redact_value(item, team_patterns) for item in items]
            return items if all(map(is_, redacted, items)) else tuple(redacted)
        case dict():
            return {
                redact_value(str(key), team_patterns): MASK
                if isinstance(inner, str) and len(inner) >= MIN_MASKED_CHARS and KEY_NAME.fullmatch(str(key))
                else redact_value(inner, team_patterns)
                for key, inner in cast("dict[object, Any]", value).items()
            }
        case list():
            return [redact_value(item, team_patterns) for item in cast("list[Any]", value)]
        case _:
            return value


def redact_struct(value: T, team_patterns: Sequence[re.Pattern[str]] = ()) -> T:
    changed: dict[str, Any] = {}
    for name, field in zip(value.__struct_fields__, astuple(value), strict=True):
        if not field or field is UNSET or isinstance(field, NUMBER_TYPES):
            continue
        redacted = redact_value(field, team_patterns)
        if redacted is not field and redacted != field:
            changed[name] = redacted
    return replace(value, **changed) if changed else value


# --- regular expressions of bounded cost, from untrusted text ---------------------------------------------

MAX_PATTERNS = 32
MAX_PATTERN_CHARS = 200
MAX_WAYS = 4096
OPEN_REPEAT_LIMIT = 256
"""Maximum repeats of `*`, `+` and `{n,}` in a team's pattern."""
CASELESS_PREFIX = "(?i)"
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?:|[()|]|\{(?P<low>\d*)(?P<comma>,?)(?P<high>\d*)\}|[*+?]\??|.", re.S
)
_SET_WORDS = re.compile(r"(?<!\\)\[|--|&&|~~|\|\|")


class PatternRefused(ValueError):
    """Error for an unusable pattern in `[redact] patterns`."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"[redact] patterns: {pattern[:MAX_PATTERN_CHARS]!r} {why}")
        self.why = why


def compile_team_pattern(pattern: str) -> re.Pattern[str]:
    return compile_bounded(pattern)[0]


@lru_cache(maxsize=64)
def compile_bounded(pattern: str, max_ways: int = MAX_WAYS) -> tuple[re.Pattern[str], int]:
    """Compile a pattern and return its number of ways to match from a position. Raises PatternRefused.

    Accepted: literals, classes, groups `(?:…)`, alternatives, repeats. A repeated group may hold no repeat and no
    alternatives; at most `max_ways` ways to match from a position. A leading `(?i)` ignores case.
    """
    if not pattern or len(pattern) > MAX_PATTERN_CHARS:
        raise PatternRefused(pattern, f"has {len(pattern)} characters; expected 1 to {MAX_PATTERN_CHARS}")
    bounded, ways = _bound_repeats(pattern.removeprefix(CASELESS_PREFIX), max_ways)
    try:
        compiled = re.compile(bounded, re.IGNORECASE if pattern.startswith(CASELESS_PREFIX) else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternRefused(pattern, f"is not a regular expression: {error}") from error
    if compiled.groups or compiled.fullmatch(""):
        raise PatternRefused(pattern, "matches the empty text, or captures: write `(?:…)` and at least one character")
    return compiled, ways


def _bound_repeats(pattern: str, max_ways: int) -> tuple[str, int]:
    pieces: list[str] = []
    ways = 1
    groups: list[bool] = []  # for each open group: may its length vary?
    closed: bool | None = None  # for the group closed by the previous token: did its length vary?
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        low, high = _read_repeat(token)
        if high is not None:
            if pieces[-1:] == ["("]:
                hint = f"write `(?:…)`; {CASELESS_PREFIX} stands first"
                raise PatternRefused(pattern, f"has an unsupported group: {hint}")
            if (closed and high > 1) or not pieces or pieces[-1] in ("(?:", "|"):
                raise PatternRefused(pattern, "repeats a group of variable length, which can take exponential time")
            ways *= max(1, high - low + 1)
            groups[:] = [True if high > low else varies for varies in groups]
            text = f"{{{low},{high}}}" if text[0] in "*+{" else "?"
            closed = high > low if closed is not None else None
        elif text == ")":
            closed = groups.pop() if groups else None
        else:
            closed = None
            if text == "|":
                ways *= 2
                groups[:] = [True for _ in groups]
            elif text in ("(", "(?:"):
                groups.append(False)
            elif re.fullmatch(r"\\[1-9gk]", text):
                raise PatternRefused(pattern, "has a back reference")
            elif text == "[" or (len(text) > 1 and _SET_WORDS.search(text, 1)):
                fault = "has an unclosed class, or a class with a different meaning in later Pythons"
                raise PatternRefused(pattern, f"{fault}: escape its characters")
        pieces.append(text)
    if ways > max_ways:
        fault = f"can match in {ways} ways from one position; at most {max_ways} are allowed"
        raise PatternRefused(pattern, f"{fault}: bound its repeats")
    return "".join(pieces), ways


def _read_repeat(token: re.Match[str]) -> tuple[int, int | None]:
    """Return minimum and maximum of a repeat token; None as maximum for any different token."""
    text = token[0]
    if text[0] in "*+?":
        return (1 if text[0] == "+" else 0, 1 if text[0] == "?" else OPEN_REPEAT_LIMIT)
    if text[0] == "{" and len(text) > 2 and token["low"]:
        low = int(token["low"])
        high = int(token["high"]) if token["high"] else low if not token["comma"] else max(low, OPEN_REPEAT_LIMIT)
        return low, high
    return 0, None


# --- file names -------------------------------------------------------------------------------------------

SECRET_NAMES = re.compile(
    r"\.env(?:rc)?|\.env[._-].*|.*\.env|[._]netrc|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc|\.yarnrc\.yml|\.git-credentials"
    r"|\.htpasswd|\.dockercfg|\.vault[-_]?(?:token|pass(?:word)?)|\.s3cfg|\.boto|\.terraformrc|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|.*\.(?:pem|key|p8|p12|pfx|pkcs12|jks|keystore|kdbx?|ppk|agekey|gpg|ovpn|tfstate|tfstate\.backup|tfvars|mobileprovision)"
    r"|(?:.*[._-])?(?:secrets?|credentials?)(?:[._-].*)?\.(?:ya?ml|json|toml|ini|txt|properties|env|enc)|secrets?|credentials?"
    r"|(?:.*[._-])?service[._-]?account.*\.json|client_secret.*\.json|token(?:s)?\.json|kubeconfig|master\.key",
    re.IGNORECASE | re.DOTALL,
)
SECRET_FOLDERS = re.compile(r"(?:^|/)(?:\.ssh|\.gnupg|\.aws|\.azure|\.gcloud|\.kube|\.docker)/", re.IGNORECASE)
SAMPLE_NAMES = re.compile(r".*(?:example|sample|template|dist|defaults?|\.pub)(?:\.[a-z]+)?", re.IGNORECASE | re.DOTALL)
"""Files made to be shared, which hold no secrets."""


def is_secret_file(path: str) -> bool:
    """Return whether a file's name suggests secrets: its hash is recorded, its content never stored."""
    name = path.rpartition("/")[2]
    if SAMPLE_NAMES.fullmatch(name):
        return False
    return SECRET_NAMES.fullmatch(name) is not None or SECRET_FOLDERS.search(path) is not None
