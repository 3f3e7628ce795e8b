"""Texts that break pages, pictures, files and servers, for every test of typed text."""

from dataclasses import dataclass

NO_TEXT = "There is no text yet"
LINES = "each is a text of its own; a page takes up to 32"


@dataclass(frozen=True)
class Hostile:
    """One text.

    Attributes:
        seen: words that a picture of it must hold, as they are drawn; written by hand, in their order.
        refused: part of the sentence that a page says instead, if it takes no such text.
    """

    name: str
    text: str
    seen: tuple[str, ...] = ()
    refused: str = ""


def _texts(*rows: tuple) -> tuple[Hostile, ...]:
    return tuple(Hostile(*row) for row in rows)


MARKDOWN = (
    "```", "`a`", "---", "***", "*a*", "_a_", "__a__", "~~a~~", "![x](http:evil)", "[x](http:evil)", "[^1]", "[x]",
    ":red[x]", ":material/close:", ":streamlit:", ":smile:", "$x$", "$$", "<b>x</b>", "&amp;", "\\", "\\*", "#", "# a",
    "- a", "1. a", "1)", "12.", "> a", "+", "|", "===", "->", "<-", "--", ">=", "a@b.com", "http://x.com", "www.x.com",
)  # fmt: skip
"""Tokens and names that Streamlit's Markdown would not show as they are."""

SIZES = _texts(
    ("empty", "", (), NO_TEXT),
    ("one token", "cat", ("cat",)),
    ("one letter", "a", ("a",)),
    ("one mark", "?", ("?",)),
    ("the same token 40 times", "ha " * 40, ("ha",) * 40),
    ("2,000 characters, no space", "x" * 2_000, ("xxxxxxxxxxxxx…",)),
    ("1,200 tokens", "x " * 1_200),
    ("a word of 3,000 characters", "long" * 750, ("longlonglonglon…",)),
    ("32 lines", "\n".join(f"line {i}" for i in range(32)), ("line", "0")),
    ("33 lines", "a\n" * 33, (), LINES),
    ("32 lines of 200 tokens", ("a " * 200 + "\n") * 32),
    ("lines of very different lengths", "a\n" + "b " * 60 + "\n\n\nc", ("a",)),
)

WHITESPACE = _texts(
    ("spaces", "   ", (), NO_TEXT),
    ("every whitespace", "\t\n\x0b\x0c\r \x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000", (), NO_TEXT),
    ("tab between words", "a\tb", ("a", "b")),
    ("no-break space", "a\xa0b", ("a", "b")),
    ("vertical tab and form feed", "a\x0bb\x0cc", ("a",)),
    ("line and paragraph separators", "a\u2028b\u2029c", ("a",)),
    ("carriage returns", "a\r\nb\rc", ("a",)),
    ("ideographic space", "東\u3000京", ("東", "京")),
    ("zero width", "a\u200bb \ufeffc \u2060", ("a", "·", "b", "c")),
)

CONTROL = _texts(
    ("null", "a\0b", ("a", "␀", "b")),
    ("control characters", "\x01\x02\x08\x0e\x1a\x1f end", ("␁", "␂", "␈", "␎", "␚", "end")),
    ("terminal escape", "\x1b[31mred\x1b[0m", ("␛", "[", "31mred")),
    ("delete and C1", "a\x7fb\x80c\x9f", ("a", "␡", "b", "c")),
    ("lone high surrogate", "a \ud800 b", ("a", "b")),
    ("lone low surrogate", "\udfff", ()),
    ("surrogates the wrong way round", "\ude00\ud83d x", ("x",)),
    ("non-characters", "\ufffe \uffff \ufdd0 \U0010ffff x", ("\ufffd", "\ufffd", "\ufffd", "\ufffd", "x")),
    ("private use", "\ue000 \uf8ff \U000f0000", ("\ue000", "\uf8ff", "\U000f0000")),
    ("replacement character", "\ufffd", ("\ufffd",)),
)

SCRIPTS = _texts(
    ("emoji", "I 💙 🍕 👩🏽‍💻 👨‍👩‍👧‍👦", ("I", "💙", "🍕")),
    ("flags", "🇩🇪🇫🇷🇯", ("🇩🇪", "🇫🇷", "🇯")),
    ("keycap and variation selectors", "1️⃣ ☺︎ ☺️", ("1️⃣", "☺︎", "☺️")),
    ("100 emoji in a row", "😀" * 100, ("😀",)),
    ("one emoji of 200 joined parts", "👩" + "\u200d👩" * 200, ("👩·👩·👩·👩·👩·👩·👩·👩…",)),
    ("right-to-left", "القط جلس על המחצלת", ("القط", "جلس", "על", "המחצלת")),
    ("both directions", "the קט sat على mat", ("the", "קט", "sat", "على", "mat")),
    ("direction override", "\u202egnp.exe\u202c \u2066x\u2069", ("·", "gnp", "exe", "x")),
    ("cjk", "猫坐在垫子上。ねこ 고양이", ("猫", "坐", "在", "ねこ", "고양이")),
    ("combining tower", "Z" + "\u0334\u0310\u0321\u035b" * 30 + "algo", ("Z\u0334\u0310\u0321\u035balgo",)),
    ("mark without a letter", "\u0301\u0301 x", ("x",)),
    ("decomposed", "cafe\u0301 café", ("cafe\u0301", "café")),
    ("thai and devanagari", "แมวนั่ง नमस्ते", ("แมวนั่ง", "नमस्ते")),
    ("math italics", "𝑥 = 𝒚²", ("𝑥", "=", "𝒚²")),
    ("ligature and dotless", "ﬁ ı İ ß ẞ Ǆ", ("ﬁ", "ı", "İ", "ß", "ẞ", "Ǆ")),
    ("beyond the first plane", "𒀀 𓀀 𐍈", ("𒀀", "𓀀", "𐍈")),
    ("invisible letters", "\u3164 \u115f \u2800 x", ("·", "x")),
)

MARKUP = _texts(
    ("script", "</script><script>hacked=1</script>", ("<", "/", "script", ">", "hacked", "=", "1")),
    ("image with onerror", '<img src=x onerror="hacked=1">', ("<", "img", "onerror", '"')),
    ("svg with onload", "<svg/onload=hacked=1>", ("<", "svg", "onload")),
    ("style and comment", "</style><!-- --> <style>*{display:none}</style>", ("style", "!", "display", "none")),
    ("closing textarea", "</textarea><b id=hacked>x</b>", ("textarea", "b", "id", "hacked")),
    ("entities", "&lt;b&gt; &#x3c; &amp;amp;", ("&", "lt", ";", "x3c", "amp")),
    ("cdata", "]]> <![CDATA[ x", ("]", "]", ">", "CDATA")),
    ("markdown color", ":red[x] :material/delete:", (":", "red", "[", "x", "]", "material")),
    ("markdown emphasis", "**b** *i* ~~s~~ `c` # h", ("*", "*", "b", "~", "`", "c", "#")),
    ("markdown link", "[a](http://example.invalid) ![i](http://example.invalid/i.png)", ("[", "a", "http", "invalid")),
    ("markdown math", "$x$ $$\\frac{1}{0}$$ \\(y\\)", ("$", "x", "$", "\\", "frac")),
    ("markdown table", "| a | b |\\n|---|---|", ("|", "a", "b", "-")),
    ("special tokens", "<pad> <sos> <eos> <|endoftext|>", ("<", "pad", ">", "sos", "eos", "endoftext")),
)

CODE = _texts(
    ("constructor", "constructor", ("constructor",)),
    ("names of objects", "__proto__ toString hasOwnProperty valueOf prototype", ("toString", "hasOwnProperty")),
    ("names of fields", "datum query key weight label image url undefined", ("datum", "query", "image", "url")),
    ("words for nothing", "NaN null None undefined nan Infinity -inf", ("NaN", "null", "None", "undefined", "nan")),
    ("booleans", "true false True", ("true", "false", "True")),
    ("numbers", "1 01 1e9 -0 0x10 1,000.5 ١٢", ("1", "01", "1e9", "0", "0x10", "1,000.5", "١٢")),
    ("huge number", "9" * 400, ("999999999999999…",)),
    ("formulas", "=1+1 +1 -1 @SUM(A1)", ("=", "1", "+", "@", "SUM", "A1")),
    ("formula that calls", "=cmd|'/C calc'!A0", ("=", "cmd", "calc", "A0")),
    ("csv", 'a,"b";c\n"x', ("a", ",", '"', "b", ";", "c")),
    ("json", '{"a": [1, null, "\\ud800"]}', ("{", "a", "[", "null", "\\", "ud800")),
    ("sql", "'; DROP TABLE tokens; --", ("'", ";", "DROP", "TABLE")),
    ("format strings", "%s %n {0} {} {x!r:>{y}} %(a)d", ("%", "s", "{", "0", "}", "!")),
    ("templates", "{{7*7}} ${x} #{x} <%= x %> {% x %}", ("{", "7", "*", "$", "#")),
    ("vega expression", '"+alert(1)+" datum.constructor [datum.value]', ('"', "+", "alert", "datum", "constructor")),
    ("vega signal", "{'signal': 'alert(1)'} datum['x'] substring(datum.label, 5)", ("signal", "alert", "substring")),
    ("backslashes", "\\ \\n \\u0041 \\x41 C:\\temp\\new", ("\\", "n", "u0041", "x41", "C", "temp")),
    ("quotes", "' \" ` ‘’ “” « »", ("'", '"', "`", "“", "”", "«")),
    ("file paths", "/etc/passwd ../../x file:///etc/passwd CON nul", ("/", "etc", "passwd", "file", "CON")),
    ("web address", "http://example.invalid/x.png?a=1&b=2#c", ("http", "example", "invalid", "png")),
    ("data address", "data:text/html,<script>hacked=1</script>", ("data", "text", "html", "script", "hacked")),
    ("javascript address", "javascript:alert(1)", ("javascript", "alert")),
    (
        "link to itself",
        "?text=x&heads_off=e0.1#frag %00 %ED%A0%80 %zz + %2B",
        ("?", "text", "&", "off", "%", "ED", "+"),
    ),
    ("shell", "$(touch hacked) `id` ; rm -rf ~", ("$", "touch", "hacked", "`", "rm")),
)

TEXTS = SIZES + WHITESPACE + CONTROL + SCRIPTS + MARKUP + CODE
