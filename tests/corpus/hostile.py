"""Sixty texts that an agent, a repository or a transcript may send to break a page, a stream or a terminal.

Each text is named for what it tries. `mark` puts a text between two plain words, by which a test finds it again in what
a page shows.
"""

ESC = "\x1b"

TEXTS: dict[str, str] = {
    # Markup
    "image": "<img src=x onerror=alert(1)>",
    "script": "<script>alert(1)</script>",
    "end of script": "</script><script>alert(1)</script>",
    "end of style": "</style><style>*{display:none}</style>",
    "end of title": "</title><img src=x onerror=alert(1)>",
    "end of textarea": "</textarea><img src=x onerror=alert(1)>",
    "end of code": "</code></pre></td></tr></table><h1>Allowed</h1>",
    "svg": "<svg onload=alert(1)><use href=data:,x /></svg>",
    "svg script": "<svg><script>alert&#40;1)</script></svg>",
    "math": "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "frame": "<iframe src=javascript:alert(1) srcdoc='<p>x'></iframe>",
    "object": "<object data=javascript:alert(1)></object><embed src=//evil.example>",
    "meta": "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "base": "<base href=https://evil.example/>",
    "link": "<link rel=stylesheet href=https://evil.example/x.css>",
    "form": "<form action=/approvals/x/answer method=post><button>Deny</button></form>",
    "dialog": "<dialog open>Remit asks for your password</dialog>",
    "comment": "<!-- --><!--> <img src=x onerror=alert(1)> -->",
    "cdata": "<![CDATA[<img src=x onerror=alert(1)>]]>",
    "open tag": "<img src=x onerror=alert(1) ",
    "part of a page": '<div data-part="card" data-answer="once" data-card="x">Allowed</div>',
    "htmx": '<div hx-get="/settings" hx-trigger="load" data-hx-post="/unpair/x"></div>',
    "template element": "<template shadowrootmode=open><slot></slot></template>",
    "entities": "&lt;img src=x onerror=alert(1)&gt; &amp;lt; &#x3c;b&#x3e; &nbsp;",
    # Attributes
    "double quote": '" onmouseover="alert(1)" x="',
    "single quote": "' onmouseover='alert(1)' x='",
    "back quote": "` onmouseover=alert(1) x=`",
    "no quote": "x onfocus=alert(1) autofocus tabindex=1",
    "style": '" style="position:fixed;inset:0;background:url(https://evil.example)" x="',
    "address": "javascript:alert(1)",
    "address in disguise": "jAvAsCrIpT&#58;alert(1)//https://remit.example",
    "data address": "data:text/html,<script>alert(1)</script>",
    "other host": "//evil.example/../..",
    "query": "?l=1-9&kind=denied#L1",
    "percent": "%3Cimg%20src%3Dx%3E%0d%0aSet-Cookie:%20a=b %zz %",
    # Templates and scripts
    "jinja": "{{ 7*7 }}{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}{# x #}",
    "format": "{0.__class__} %(x)s %s %d ${7*7} #{7*7} <%= 7*7 %>",
    "json": '"}],"data":{"card":null},"x":[{"y":"',
    "javascript text": "';alert(1)//\\u003cimg\\u003e`${alert(1)}`",
    "line separators": "a\u2028b\u2029c\u0085d",
    # Streams and protocols
    "event": 'x\n\nevent: state\ndata: {"questions":[],"log_bytes":{}}\n\n',
    "lone return": "x\r\revent: state\rdata: {}\r\r",
    "header": "x\r\nX-Remit: yes\r\nLocation: https://evil.example",
    "boundary": '\r\n--x\r\nContent-Disposition: form-data; name="allow"\r\n\r\ntrue',
    # Characters
    "nul": "a\x00b",
    "controls": "\x01\x02\x08\x0b\x0c\x0e\x1f\x7f\x80\x9b\x9f",
    "colour": f"{ESC}[31mred{ESC}[0m{ESC}[2J{ESC}]0;title\x07{ESC}]8;;https://evil.example{ESC}\\link{ESC}]8;;{ESC}\\",
    "backspaces": "rm -rf /\x08\x08\x08\x08\x08\x08\x08\x08ls      ",
    "right to left": "\u202egpj.exe\u202c \u2066x\u2069 \u061c\u200f",
    "invisible": "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg\u180eh",
    "tag characters": "safe\U000e0064\U000e0065\U000e006c\U000e0001",
    "surrogate": "a\ud800b\udfffc\udcff",
    "noncharacters": "\ufffe\uffff\U0010ffff\ufffa\ufffd",
    "combining": "Z" + "\u0300\u0301\u0302\u0303\u0316" * 40,
    "alike": "аdmin ｒｍ ρаypal ⟨x⟩ ／etc／passwd",
    "arabic": "\u0645\u0644\u0641 \u05e7\u05d5\u05d1\u05e5 src/\u202b.py",
    # Names and cells
    "parents": "../../../../etc/passwd/././/x",
    "formula": '=HYPERLINK("https://evil.example";"x")+cmd|\' /C calc\'!A0',
    "one long word": "W" * 4000,
    "many lines": "line\n" * 3000,
}


def mark(number: int, text: str) -> str:
    return f"h{number:02}z{text}z{number:02}h"


def list_marked(*, longest: int = 1_000_000, without: str = "") -> list[str]:
    """Return the marked texts up to a length in UTF-8 bytes, without the characters that a field cannot hold."""
    found = [mark(number, text) for number, text in enumerate(TEXTS.values())]
    return [
        text
        for text in found
        if len(text.encode("utf-8", "surrogatepass")) <= longest and not any(c in text for c in without)
    ]
