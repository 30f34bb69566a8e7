"""Every lexeme of TiDB's lexer (pingcap/tidb pkg/parser/lexer.go and misc.go), and where its special comments begin and end."""

from __future__ import annotations

import pytest

from sidecar.errors import UnsupportedDdl
from sidecar.sql.lexer import tokens


def kinds(text: str) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in tokens(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`root`@`%`", [("name", "`root`"), ("variable", "@`%`")]),
        ("'root'@'127.0.0.1'", [("string", "'root'"), ("variable", "@'127.0.0.1'")]),
        ('root@"%.x"', [("word", "root"), ("variable", '@"%.x"')]),
        ("root@localhost", [("word", "root"), ("variable", "@localhost")]),
        ("``@`a``b`", [("name", "``"), ("variable", "@`a``b`")]),
        ("@a.b @@global.c @@`d` @", [("variable", "@a.b"), ("variable", "@@global.c"), ("variable", "@@`d`"), ("variable", "@")]),
        ("s.5", [("word", "s"), ("sign", "."), ("word", "5")]),
        ("`s`.5e3", [("name", "`s`"), ("sign", "."), ("word", "5e3")]),
        ("s. 5", [("word", "s"), ("sign", "."), ("word", "5")]),
        ("default .5", [("word", "default"), ("number", ".5")]),
        ("5a 0xg 0b2 9e9 1.5", [("word", "5a"), ("word", "0xg"), ("word", "0b2"), ("number", "9e9"), ("number", "1.5")]),
        ("\U0001f600é $a", [("word", "\U0001f600é"), ("word", "$a")]),
        ("a\u00a0b\u3000c", [("word", "a\u00a0b\u3000c")]),
        ("a\v\f\r\tb", [("word", "a"), ("word", "b")]),
        ("'a' 'b' \"it\"\"s\" 'c\\'d'", [("string", "'a'"), ("string", "'b'"), ("string", '"it""s"'), ("string", "'c\\'d'")]),
        ("n'a' x'0F' 0x0F b'01' 0b01", [(("number"), one) for one in ("n'a'", "x'0F'", "0x0F", "b'01'", "0b01")]),
        ("a-- b", [("word", "a")]),
        ("a--b", [("word", "a"), ("sign", "-"), ("sign", "-"), ("word", "b")]),
        ("a # b\nc /* d */ e /*+ f */", [("word", "a"), ("word", "c"), ("word", "e")]),
    ],
)  # fmt: skip
def test_each_lexeme_of_tidb_is_a_token(text: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(text) == expected


def test_each_sign_of_tidb_is_a_token() -> None:
    signs = "-> ->> := <=> >= <= != <> << >> || && &^ \\N > < ( ) [ ] ; , & % : | ! ^ ~ ? = { } + / * - ."
    assert kinds(signs) == [("sign", one) for one in signs.split()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a /*!50100 b */ c", [("a", ""), ("b", "/*!50100"), ("c", "")]),
        ("a /*!501001 b */", [("a", ""), ("1", "/*!50100"), ("b", "/*!50100")]),
        ("/*! a */ /*T! b */", [("a", "/*!"), ("b", "/*T!")]),
        ("/*T![ttl] a /* x */ b */ c", [("a", "/*T![ttl]"), ("b", "/*T![ttl]"), ("c", "")]),
        ("a /*T![ttl,placement] b", [("a", ""), ("b", "/*T![ttl,placement]")]),
        ("a /*T![ttl,new] b */ c", [("a", ""), ("/*T![ttl,new] b */", ""), ("c", "")]),
        ("/*T![new] `a */ */` */", None),
        ("/*TX a */ b /*M! c */", [("b", "")]),
        ("a */", None),
        ("a /* b", [("a", ""), ("/", ""), ("*", ""), ("b", "")]),
    ],
)
def test_what_tidb_reads_inside_comments_is_marked(text: str, expected: list[tuple[str, str]] | None) -> None:
    if expected is None:
        with pytest.raises(UnsupportedDdl, match="ddl-done"):
            tokens(text)
    else:
        assert [(one.text, one.comment) for one in tokens(text)[:-1]] == expected


@pytest.mark.parametrize("text", ["`a", "'a", "x'0", "a \x01", "a \\ b"])
def test_what_is_no_lexeme_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(UnsupportedDdl, match="ddl-done"):
        tokens(text)
