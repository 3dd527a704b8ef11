from __future__ import annotations

import pytest

from sidecar.config.document import MAX_BYTES, MAX_DEPTH, Document, read_document


def read(text: str) -> Document:
    return read_document(text.encode(), "f.yaml")


def said(document: Document) -> list[tuple[int, int, str]]:
    return [(problem.line, problem.column, problem.message) for problem in document.problems]


def test_each_key_knows_where_it_stands() -> None:
    document = read("listen: x\ntargets:\n  - name: a\n    auth: {basic: {username: u}}\n")
    assert document.data == {"listen": "x", "targets": [{"name": "a", "auth": {"basic": {"username": "u"}}}]}
    at = document.origins.locate
    assert at(("listen",))[1:] == (1, 1)
    assert at(("targets", 0))[1:] == (3, 5)
    assert at(("targets", 0, "auth", "basic", "username"))[1:] == (4, 20)
    # What isn't written is looked for in what is.
    assert at(("targets", 0, "auth", "basic", "password_file"))[1:] == (4, 12)
    assert at(("targets", 7, "url"))[1:] == (2, 1)
    assert at(("nothing",))[1:] == (1, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("017", 17),
        ("1:30", "1:30"),
        ("2026-11-30", "2026-11-30"),
        ("1_000", "1_000"),
        ("0x1f", "0x1f"),
        (".nan", ".nan"),
        ("true", True),
        ("~", None),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        (".inf", float("inf")),
        ("'5'", "5"),
        ('"true"', "true"),
    ],
)
def test_scalars_are_what_they_look_like(text: str, value: object) -> None:
    found = read(f"a: {text}").data["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_text() -> None:
    assert read("{1: a, true: b, null: c, on: d}").data == {"1": "a", "true": "b", "null": "c", "on": "d"}


def test_a_key_written_twice_names_both_lines() -> None:
    document = read("a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert said(document) == [(4, 3, "written twice, first on line 2")]
    assert document.problems[0].key == "a.b"


@pytest.mark.parametrize(
    ("text", "place", "part"),
    [
        ("a: 1\n---\nb: 2\n", (2, 1), "a second document"),
        ("a: !!python/object/apply:os.system [id]\n", (1, 4), "tags aren't accepted"),
        ("a: ! x\n", (1, 4), "tags aren't accepted"),
        ("a:\n\tb: 1\n", (2, 1), "isn't YAML"),
        ("a: [1, 2\n", (2, 1), "isn't YAML"),
        ("a: b: c\n", (1, 5), "mapping values are not allowed here"),
        ("a: *nothing\n", (1, 4), "an alias to nothing"),
        ("a: &x [*x]\n", (1, 8), "an alias inside of what it stands for"),
        ("? [a]\n: 1\n", (1, 3), "this key isn't a text"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", (3, 3), "merge keys aren't accepted"),
        ("a: \x07\n", (1, 4), "a control character"),
        ('a: "\\ud800"\n', (1, 4), "half a character"),
        ("[" * 500, (1, MAX_DEPTH + 2), "nested deeper"),
    ],
)
def test_what_a_text_may_not_have(text: str, place: tuple[int, int], part: str) -> None:
    (problem,) = read(text).problems
    assert (problem.line, problem.column) == place
    assert part in problem.message


def test_tabs_come_with_their_mend() -> None:
    assert read("a:\n\tb: 1\n").problems[0].mend == "indent with spaces, not tabs"


def test_escapes_that_are_no_characters() -> None:
    for text in ('a: "\\Uffffffff"', 'a: "\\U00110000"'):
        (problem,) = read(text).problems
        assert "isn't YAML" in problem.message


def test_not_utf8_says_where() -> None:
    (problem,) = read_document(b"a: 1\nb: \xff\n", "f.yaml").problems
    assert (problem.line, problem.column, problem.message) == (2, 4, "isn't UTF-8")


def test_a_byte_order_mark_is_no_text() -> None:
    assert read_document(b"\xef\xbb\xbfa: 1\n", "f.yaml").data == {"a": 1}


def test_size_is_bounded() -> None:
    (problem,) = read_document(b"#" * (MAX_BYTES + 1), "f.yaml").problems
    assert "larger than 1 MiB" in problem.message


def test_aliases_stand_for_copies() -> None:
    document = read("a: &x {b: [1]}\nc: *x\n")
    assert document.data == {"a": {"b": [1]}, "c": {"b": [1]}}
    assert document.data["a"]["b"] is not document.data["c"]["b"]


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (problem,) = read("\n".join(lines)).problems
    assert "more than 50000 values" in problem.message


def test_aliases_that_nest_are_stopped() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100))]
    (problem,) = read("\n".join(lines)).problems
    assert "too deep" in problem.message


def test_an_undefined_alias_is_not_repeated() -> None:
    assert "hunter2" not in str(read("password: *hunter2").problems[0])
