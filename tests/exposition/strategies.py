"""Pages for property tests: well-formed ones, changed ones, and anything at all."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
VALUES = ("0", "1", "-3", "2.5", "1e3", "+Inf", "-Inf", "NaN", "1.7960331295824544e+09", "9007199254740993")
LABEL_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=8)
NAMES = st.from_regex(r"[a-z_:][a-z0-9_:]{0,5}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)


@dataclass(frozen=True, slots=True)
class Line:
    """A series with its value, as the text has it."""

    series: str
    value: str

    def __str__(self) -> str:
        return f"{self.series} {self.value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@st.composite
def families(draw: st.DrawFn) -> tuple[list[str], list[Line]]:
    """One family: its comments, and sample lines that fall under it."""
    name, kind = draw(NAMES), draw(st.sampled_from(TYPES))
    if kind == "counter":
        name += "_total"
    suffixes = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}.get(
        kind, ("",)
    )
    lines = []
    for _ in range(draw(st.integers(0, 4))):
        labels = draw(st.dictionaries(LABEL_NAMES, LABEL_TEXT, max_size=3))
        inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
        text = f"{{{inside}}}" if inside else ""
        lines.append(Line(name + draw(st.sampled_from(suffixes)) + text, draw(st.sampled_from(VALUES))))
    return [f"# HELP {name} help", f"# TYPE {name} {kind}"], lines


@st.composite
def pages(draw: st.DrawFn) -> list[str]:
    """Lines of a well-formed page; families don't share names, series may come twice."""
    lines: list[str] = []
    seen: set[str] = set()
    for comments, samples in draw(st.lists(families(), max_size=4)):
        name = comments[1].split()[2]
        if any(name.startswith(other) or other.startswith(name) for other in seen):
            continue
        seen.add(name)
        lines += [*comments, *map(str, samples)]
    return lines


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


PIECES = st.sampled_from(
    [
        *(bytes([byte]) for byte in b'\n\r\t \x00\xff"\\{},=#<1g'),
        *(b"# TYPE ", b"# EOF\n", b"# TYPE g gauge\n", b"# TYPE g counter\n", b" # {", b"\xef\xbb\xbf"),
        *(b"1_0", b" 1 2", b"NaN", b"g_total", b"le=", b"\xc3\xa9", b'g{a="b"} 1\n', b"g 1\n"),
    ]
)


@st.composite
def changed(draw: st.DrawFn, body: bytes) -> bytes:
    """A body with some places cut out, doubled or overwritten."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        stop = min(len(body), start + draw(st.integers(0, 12)))
        middle = draw(st.one_of(PIECES, st.binary(max_size=4), st.just(body[start:stop] * 2), st.just(b"")))
        body = body[:start] + middle + body[stop:]
    return body


SCRAPS = st.lists(PIECES, max_size=30).map(b"".join)
ANYTHING = st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode()), SCRAPS)
