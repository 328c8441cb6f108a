"""Places where a secret stands by the rules of some program, whatever its shape: options, headers, files, URLs.

In each pattern the first group is what stays, and what follows it is masked. Every repeat is bounded.
"""

import re

NOT_THESE = r"(?!\[redacted\]|[\"']?(?:\$[\w({]|\$\{|%\w|<|\{\{|-))"
"""Masked already, a variable, a placeholder, or the next option."""

VALUE = NOT_THESE + r"(?:'[^'\n]{1,1024}'|\"[^\"\n]{1,1024}\"|[^\s'\"|;&()<>]{1,1024})"
GAP = r"[ \t]{1,8}"
WITHIN = r"[^\n|;&]{0,300}?"
"""Words of the same simple command."""

NAMED = (
    r"(?:password|passwd|passphrase|passcode|pwd|secret|token|api[-_]?key|access[-_]?key|secret[-_]?key|auth[-_]?key|"
    r"client[-_]?secret|credentials?)"
)

SPECIAL = (
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
"""More tokens that are known by their own shape."""

END = r"(?![^\s'\"])"
HEADER = r"(\bAuthorization\\?['\"]?\s{0,4}[:=]\s{0,4}\\?['\"]?"
UNMASKED = r"(?!\[redacted\]|\$|<|\{)"

ANY_CASE = (
    # tool --password VALUE; not --password-stdin, --no-password, --ask-pass, --with-token
    rf"((?<![\w-])--?(?!(?:no|with|use|ask|prompt|show|print|skip|allow)[-_])(?:[a-z0-9]{{1,20}}[-_]){{0,4}}{NAMED}{GAP})"
    rf"(?!id=){VALUE}",
    rf"((?<![\w-])-(?:src|dest)?(?:storepass|keypass){GAP}){VALUE}",
    rf"((?<![\w-])-pass(?:in|out)?{GAP}['\"]?pass:){VALUE}",
    rf"(\bconfig(?:ure)?{GAP}set{GAP}(?:--?[\w-]{{1,20}}{GAP})?\S{{0,100}}?{NAMED}{GAP}){VALUE}",
    HEADER + r"(?:Basic|Bearer|ApiKey|Api-Key|Token|Negotiate|NTLM|key)[ \t=]{1,4})" + UNMASKED + r"[^\s'\"\\]{1,4096}",
    HEADER + rf"(?:Digest|AWS4-HMAC-SHA256|OAuth){GAP})" + UNMASKED + r"[^\r\n']{1,4096}",
    HEADER + r")(?=[^\s'\"]{0,200}\d)" + UNMASKED + r"[A-Za-z0-9+/=._~-]{12,4096}",
    r"(\b(?:Set-)?Cookie:[ \t]{0,4}(?=[\w.-]{1,100}=))(?!\[redacted\])[^\r\n'\"]{1,4096}",
    r"(\b(?:machine\s{1,8}\S{1,200}|default(?=\s{1,16}login\s))\s{1,16}(?:login\s{1,8}\S{1,200}\s{1,16})?"
    r"(?:account\s{1,8}\S{1,200}\s{1,16})?password\s{1,8})(?!\[redacted\])\S{1,1024}",
    r"([?&](?:key|sig|signature|auth|token|code)=)(?=[^&\s]{0,200}\d)(?!\[redacted\])[A-Za-z0-9+/%=._~-]{16,2048}",
    rf"(--from-literal[= \t][\w.-]{{1,100}}=){VALUE}",
    rf"((?:--with-token|--password-stdin|-S)[ \t]{{0,8}}<<<[ \t]{{0,8}}){VALUE}",
)

AS_WRITTEN = (
    # curl -u user:VALUE; not `docker run -u 1000:1000`, `-u node:node`, `-u http://…`, `-u C:\…`
    r"((?<![\w-])(?:-u|-U|--user|--proxy-user)(?:[ \t]{0,8}|=)['\"]?(?P<user>[A-Za-z0-9_.@+-]{1,100}):)"
    rf"(?!\[redacted\]|\$|<|[/\\]|[0-9]{{1,6}}{END}|(?P=user){END})[^\s'\"|;&]{{1,1024}}",
    rf"(\b(?:mysql|mariadb)\w{{0,16}}(?:-\w{{1,16}})?\b{WITHIN}[ \t]-p){VALUE}",
    rf"(\b(?:sshpass|(?:docker|podman|buildah|az){GAP}login|helm{GAP}registry{GAP}login|mongo\w{{0,10}}|twine{GAP}upload)"
    rf"{WITHIN}[ \t]-p[ \t]{{0,8}}){VALUE}",
    rf"(\bredis-cli\b{WITHIN}[ \t]-a[ \t]{{0,8}}){VALUE}",
    rf"(\bldap(?:search|modify|add|delete|passwd|whoami)\b{WITHIN}[ \t]-w[ \t]{{0,8}}){VALUE}",
    rf"(\bopenssl{GAP}enc\b{WITHIN}[ \t]-k{GAP}){VALUE}",
    rf"(\bhtpasswd{GAP}-\w{{0,6}}b\w{{0,6}}{GAP}\S{{1,200}}{GAP}\S{{1,100}}{GAP}){VALUE}",
    rf"(\b(?:smbclient|rpcclient)\b{WITHIN}[ \t]-U[ \t]{{0,8}}['\"]?[^\s%'\"]{{1,100}}%)"
    r"(?!\[redacted\])[^\s'\"|;&]{1,1024}",
    rf"(\b[A-Z0-9_]{{0,60}}(?:PASSWORD|PASSWD|PASSPHRASE)=){VALUE}",
    r"(\b[A-Z0-9_]{0,60}_(?:PASS|PWD|AUTH|SECRET|TOKEN|KEY)=)"
    rf"(?!(?:true|false|yes|no|none|null|[0-9]{{1,5}})(?!\w)|/)(?=[^\s]{{4}}){VALUE}",
    r"(\b[a-z_]{0,30}auth\\?['\"]?\s{0,4}[:=]\s{0,4}\\?['\"]?)(?=[^\s'\"]{0,200}[0-9])(?=[^\s'\"]{0,200}[A-Z])"
    r"[A-Za-z0-9+/]{8,2048}={0,2}",
    r"(\bhttps?://)(?=[^\s/:@]{0,300}\d)(?!\[redacted\])[^\s/:@?#'\"]{16,300}(?=@)",
    rf"(\b(?:echo|printf){GAP}(?:-[neE]{{1,3}}{GAP})?){VALUE}"
    r"(?=\s{0,8}\|[^\n|;]{0,200}(?:--password-stdin|--with-token|--passphrase-fd|\bsudo[ \t][^\n|;]{0,100}-S))",
)

PLACES = (*(re.compile(p, re.IGNORECASE) for p in ANY_CASE), *(re.compile(p) for p in AS_WRITTEN))

NO_PLACE = re.compile(r"[^\s=:@]*")
"""A path, an id, a hash: no place is without a blank or one of these signs."""

HINT = re.compile(
    r"-[uUpawkbSs]|pass|pwd|secret|token|key|auth|cookie|credential|sig|code=|PASS|_PWD|://|from-literal", re.IGNORECASE
)
"""Without one of these no place is in a text: most texts of a record are short names, and cost nothing."""
