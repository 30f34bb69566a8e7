from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.nouns import MARK_TABLE, TableName
from sidecar.shared.ticdc import table_rules
from sidecar.shared.ticdc.table_rules import PATTERNS_MAX, RULE_LENGTH_MAX, RULES_MAX, TableRules, asked, matching, split_rules


def lets_in(rule: str, name: str, *, case_sensitive: bool = True) -> bool:
    """Whether the pattern of a rule for tables of the schema `s` matches a table's name."""
    return TableRules.of([rule], case_sensitive=case_sensitive).matches(TableName("s", name))


def matches(pattern: str, name: str, *, case_sensitive: bool = True) -> bool:
    return lets_in(f"s.{pattern}", name, case_sensitive=case_sensitive)


# ---- which rule decides ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "out", "let_in"),
    [
        ([], ["shop.orders"], []),
        (["*.*"], [], ["shop.orders", "hr.staff"]),
        (["shop.*"], ["shops.orders", "myshop.orders"], ["shop.orders"]),
        (["!shop.*"], ["shop.orders", "hr.staff"], []),
        (["shop.*", "!shop.event_*"], ["shop.event_1", "hr.staff"], ["shop.events", "shop.orders"]),
        (["!shop.event_*", "shop.*"], ["hr.event_1"], ["shop.event_1"]),
        (["*.*", "!*.tmp*", "etl.tmp_keep"], ["shop.tmp", "etl.tmp_1"], ["etl.tmp_keep", "shop.orders"]),
        (["  # nothing", "", " \t", "\tshop.* "], ["hr.staff"], ["shop.orders"]),
        (['"a.b".`c d`'], ["a.b"], []),
    ],
)
def test_the_last_rule_that_matches_decides(rules: list[str], out: list[str], let_in: list[str]) -> None:
    tables = [TableName(*name.split(".")) for name in [*out, *let_in]]
    assert matching(rules, tables) == [TableName(*name.split(".")) for name in let_in]


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["*", "a*", "b"]), st.sampled_from(["*", "?1", "t2"])), max_size=5),
    st.tuples(st.sampled_from(["a", "ab", "b"]), st.sampled_from(["t1", "t2"])),
)
def test_the_last_match_wins_over_any_list(parts: list[tuple[bool, str, str]], names: tuple[str, str]) -> None:
    table = TableName(*names)
    expected = False
    for positive, schema, name in parts:
        if TableRules.of([f"{schema}.{name}"]).matches(table):
            expected = positive
    rules = [f"{'' if positive else '!'}{schema}.{name}" for positive, schema, name in parts]
    assert matching(rules, [table]) == ([table] if expected else [])


@pytest.mark.parametrize(
    "schema", ["mysql", "MySQL", "sys", "INFORMATION_SCHEMA", "performance_schema", "metrics_schema", "inspection_schema", "dm_heartbeat"]
)
@pytest.mark.parametrize("case_sensitive", [True, False])
def test_system_schemas_stay_out_in_any_case(schema: str, case_sensitive: bool) -> None:
    assert matching(["*.*", f"{schema}.t"], [TableName(schema, "t")], case_sensitive=case_sensitive) == []


@pytest.mark.parametrize("schema", ["tidb_cdc", "lightning_task_info", "workload_schema"])
def test_schemas_of_ticdc_stay_out_by_their_exact_name(schema: str) -> None:
    assert matching(["*.*"], [TableName(schema, "t"), TableName(schema.upper(), "t")]) == [TableName(schema.upper(), "t")]


def test_the_mark_table_is_let_in_as_any_other() -> None:
    assert matching(["*.*"], [MARK_TABLE]) == [MARK_TABLE]
    assert matching(["shop.*"], [MARK_TABLE]) == []


# ---- patterns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("t1", ["t1"], ["t", "t11", "T1"]),
        ("$_9", ["$_9"], ["_9"]),
        ("订单?", ["订单1", "订单单"], ["订单", "订单12"]),
        ("e?", ["e\u0301"], ["é"]),
        ("*", ["", "a", "a\nb"], []),
        ("a*c", ["ac", "abc", "acbc", "a\nc"], ["acb", "xac"]),
        ("a**?c", ["abc", "abbc"], ["ac"]),
        ("?", ["a", "\n", "😀"], ["", "ab"]),
        ("t[0-9a]", ["t0", "t9", "ta"], ["t", "tb", "t00", "t-"]),
        ("t[!0-9]", ["ta", "t-", "t!", "t\n"], ["t0", "t"]),
        ("t[^a-c]", ["t^", "tb"], ["td"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[-a]", ["a", "-"], ["b"]),
        ("[a-c-e]", ["b", "-", "e"], ["d"]),
        ("[+--]", ["+", ",", "-"], ["."]),
        ("[!!]", ["a"], ["!"]),
        ("[*?./,]", ["*", "?", ".", "/", ","], ["a"]),
        (r"[\]\\\-]", ["]", "\\", "-"], ["a"]),
        ("[:a]", [":", "a"], ["b"]),
        ("x[[:b]", ["x[", "x:", "xb"], ["x"]),
        (r"[\^a]b\^", ["^b^", "ab^"], ["cb^"]),
        (r"a\.b\*\ \\", [r"a.b* " + "\\"], ["a.bc "]),
        (r"\é?", ["éa"], ["e"]),
        (r"pay\$*", ["pay$", "pay$1"], ["pay"]),
        ('"a""b.*"', ['a"b.*'], ['a""b.*', 'a"b.c']),
        ('`a``b"`', ['a`b"'], ["a``b"]),
        ('"""x"', ['"x'], ["x"]),
    ],
)
def test_names_quotes_and_wildcards(pattern: str, inside: list[str], outside: list[str]) -> None:
    assert [name for name in inside + outside if matches(pattern, name)] == inside


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("/b/", ["b", "abc"], ["ac", "B"]),
        (r"/^t_\d+$/", ["t_1", "t_23"], ["t_", "xt_1", "t_1x", "t_1\n", "t_\u0661"]),
        (r"/\At\z/", ["t"], ["t\n", "at"]),
        (r"/a\/b/", ["a/b"], ["ab"]),
        (r"/^[a\/,]$/", ["a", "/", ","], ["b"]),
        ("/^(a|b|)c$/", ["ac", "bc", "c"], ["abc"]),
        ("/^(?:ab){2}$/", ["abab"], ["ab", "ababab"]),
        ("/^a{1,2}$/", ["a", "aa"], ["", "aaa"]),
        ("/^a{2,}?$/", ["aa", "aaaa"], ["a"]),
        ("/^a{0}b+?c*$/", ["b", "bbcc"], ["ab"]),
        ("/^(a?){3}$/", ["", "aaa"], ["aaaa"]),
        ("/^((a*)*b)*$/", ["", "ab", "baab"], ["a", "ba"]),
        ("/a{,2}{x{01}]}/", ["a{,2}{x{01}]}"], ["aa"]),
        ("/^(?P<part>a)(?<_2>b)$/", ["ab"], ["a"]),
        (r"/^\Qa.b\E.$/", ["a.bc"], ["axbc"]),
        (r"/^\Qa*\E*$/", ["a", "a**"], ["aa"]),
        (r"/\Q$x/", ["a$xb"], ["x"]),
        (r"/^[\d-]+$/", ["1-2"], ["a"]),
        (r"/^[^\D]$/", ["1"], ["a"]),
        (r"/^\w\W\s\S\D$/", ["a- b_"], ["é- b_", "a-\vb_"]),
        ("/^[]a]$/", ["]", "a"], ["b"]),
        ("/^[^]a]$/", ["b", "\n"], ["]", "a"]),
        (r"/^[\]\-\n\t]$/", ["]", "-", "\n", "\t"], ["n"]),
        (r"/\bcopy\b/", ["a-copy", "copy", "écopyé"], ["a_copy", "copy1"]),
        (r"/x\B/", ["xy"], ["x", "x-"]),
        (r"/^\B$/", [""], ["a"]),
        ("/a.b/", ["axb"], ["a\nb", "ab"]),
        ("/(?s)a.b/", ["a\nb"], []),
        ("/(?s:a.)(?-s)./", ["a\nb"], ["a\n\n"]),
        ("/^b$/", ["b"], ["a\nb\nc"]),
        ("/(?m)^b$/", ["b", "a\nb\nc"], ["ab"]),
        (r"/(?m)\Ab\z/", ["b"], ["a\nb\nc"]),
        ("/(?i)shop/", ["SHOP", "\u017fhop"], ["shup"]),
        ("/^(?i:k)k$/", ["kk", "Kk", "\u212ak"], ["kK"]),
        ("/^((?i)a|b)c$/", ["Ac", "Bc"], ["AC"]),
        ("/^(?i)[^k-l]$/", ["m"], ["k", "K", "\u212a", "L"]),
        ("/^(?U)a+?(?i)+$/", ["aa"], ["b"]),
        ("/^(?i-i:a)$/", ["a"], ["A"]),
        ("/^*a/", ["ba"], ["b"]),
        ("/^[[:alpha:]_]+$/", ["aZ_"], ["a1", "é"]),
        ("/[[:^digit:]]/", ["a"], ["1"]),
        (r"/^\pL\P{Lu}$/", ["éé", "订a"], ["1a", "aA"]),
        (r"/^\x41\x{e9}\012$/", ["Aé\n"], ["aé\n"]),
        (r"/^\Q\C\E\\C$/", ["\\C\\C"], ["é"]),
        (r"/\_\-\ /", ["_- "], ["a"]),
    ],
)
def test_regexes_mean_what_they_mean_in_go(pattern: str, inside: list[str], outside: list[str]) -> None:
    assert [name for name in inside + outside if matches(pattern, name)] == inside


def test_each_part_has_its_own_kind_of_pattern() -> None:
    rules = TableRules.of(['!/^etl/."raw.x"', "`a.b`./[0-9]$/"])
    assert rules.matches(TableName("a.b", "t1"))
    assert not rules.matches(TableName("a", "t1"))


@pytest.mark.parametrize(
    ("pattern", "inside"),
    [
        ("Orders", ["orders", "ORDERS", "Orders"]),
        ('"OrDers"', ["orders", "ORDERS"]),
        ("ÉT*", ["étage", "ÉTAGE"]),
        ("t[A-C]", ["ta", "TB"]),
        ("/^OR/", ["orders", "Orders"]),
        ("/^[[A-Z]+$/", ["abc", "ABC"]),
        ("Σ", ["σ", "Σ"]),
        ("i", ["i", "I", "İ"]),
    ],
)
def test_case_does_not_matter_unless_the_rules_are_case_sensitive(pattern: str, inside: list[str]) -> None:
    assert all(matches(pattern, name, case_sensitive=False) for name in inside)
    assert not all(matches(pattern, name, case_sensitive=True) for name in inside)


def test_plain_names_are_lowered_and_wildcards_folded_as_in_ticdc() -> None:
    """ſ and s differ in case only, but ſ is a small letter by itself."""
    assert not matches("\u017f", "s", case_sensitive=False)
    assert matches("\u017f*", "s", case_sensitive=False)
    assert not matches("/(?-i)A/", "A", case_sensitive=False)
    assert not matches("/i/", "ı", case_sensitive=False)


def test_a_regex_that_backtracking_never_ends_is_answered() -> None:
    assert not matches("/^((a+)+)+$/", "a" * 63 + "b")
    assert matches("*a" * 20 + "*", "a" * 64)
    assert not matches("/^((a?){30}){30}$/", "a" * 63 + "b")
    assert matches(f"/^{'(' * 500}a{')*' * 500}$/", "a" * 64)


# ---- against slow and obvious matchers ---------------------------------------------------------------------------------

WILD_LETTERS = "ab-.é"
Token = str | tuple[bool, str]
"""`*`, `?`, a letter, or a set: whether it is negated, and its letters."""

tokens = st.one_of(st.sampled_from(["*", "?", *WILD_LETTERS]), st.tuples(st.booleans(), st.text(WILD_LETTERS, min_size=1, max_size=3)))


def written(token: Token) -> str:
    if isinstance(token, tuple):
        return f"[{'!' if token[0] else ''}{''.join(chr(92) + letter if letter == '-' else letter for letter in token[1])}]"
    return "\\" + token if token in "-." else token


def slowly_matches(pattern: list[Token], name: str) -> bool:
    if not pattern:
        return not name
    token, rest = pattern[0], pattern[1:]
    if token == "*":
        return any(slowly_matches(rest, name[cut:]) for cut in range(len(name) + 1))
    if not name:
        return False
    hit = (name[0] in token[1]) != token[0] if isinstance(token, tuple) else token in ("?", name[0])
    return hit and slowly_matches(rest, name[1:])


@given(st.lists(tokens, min_size=1, max_size=6), st.text(WILD_LETTERS, max_size=6))
def test_wildcards_agree_with_a_slow_matcher(pattern: list[Token], name: str) -> None:
    assert matches("".join(map(written, pattern)), name) == slowly_matches(pattern, name)


Regex = tuple[str, str]
"""The same for Go and for Python."""

atoms = st.one_of(
    st.sampled_from(["a", "b", "_", ".", "[ab]", "[^a]", r"\d", r"\W", r"\b", "(?:)", "^"]).map(lambda text: (text, text)),
    st.sampled_from(
        [
            ("[[:digit:]]", "[0-9]"),
            ("[[:^digit:]]", "[^0-9]"),
            ("[-[:alpha:]]", "[-A-Za-z]"),
            (r"\pL", "[a-zé]"),
            (r"\P{L}", "[^a-zé]"),
            (r"\x61", "a"),
            (r"\x{e9}", "é"),
            (r"\Qa.\E", r"a\."),
            (r"\z", r"\Z"),
            ("$", r"\Z"),
            ("(?P<n>a)", "a"),
        ]
    ),
)
regexes = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: joined("", parts)),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: within("(?:", joined("|", options), ")")),
        st.tuples(inner, st.sampled_from(["*", "+?", "?", "{2}", "{1,3}", "{0,}"])).map(
            lambda parts: within("(?:", parts[0], f"){parts[1]}")
        ),
    ),
    max_leaves=8,
)


def joined(between: str, parts: list[Regex]) -> Regex:
    return between.join(go for go, _ in parts), between.join(python for _, python in parts)


def within(before: str, part: Regex, after: str) -> Regex:
    return before + part[0] + after, before + part[1] + after


@given(regexes, st.text("abé_1-", min_size=1, max_size=6))
def test_regexes_agree_with_python_where_it_agrees_with_go(regex: Regex, name: str) -> None:
    go, python = regex
    assume(go.count("(?P<n>") <= 1)  # a name is given once
    assert matches(f"/{go}/", name) == bool(re.search(python, name, re.ASCII))


@given(st.text(min_size=1), st.text(min_size=1), st.sampled_from(['"', "`"]))
def test_quoting_round_trip(name: str, other: str, quote: str) -> None:
    pattern = quote + name.replace(quote, quote * 2) + quote
    assert matches(pattern, name)
    assert matches(pattern, other) == (name == other)


@given(st.text(st.characters(exclude_categories=("Cs", "Lu", "Ll", "Nd")), min_size=1), st.text(min_size=1))
def test_escaping_round_trip(name: str, other: str) -> None:
    assume(name[-1] not in " \t")  # blanks around a rule are taken off first, in TiCDC too
    pattern = "".join("\\" + char for char in name)
    assert matches(pattern, name)
    assert matches(pattern, other) == (name == other)


@given(st.lists(tokens, min_size=1, max_size=6), st.text("abAB-.éÉ", max_size=6))
def test_case_of_a_name_does_not_matter_by_default(pattern: list[Token], name: str) -> None:
    text = "".join(map(written, pattern))
    assert matches(text, name, case_sensitive=False) == matches(text, name.swapcase(), case_sensitive=False)


# ---- splitting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", []),
        (" , ,\n,", []),
        ("shop.*,!shop.event_*", ["shop.*", "!shop.event_*"]),
        (" a.b ,\tc.d\r\ne.f", ["a.b", "c.d", "e.f"]),
        ('"a,b".t,!`c,`."d"",e"', ['"a,b".t', '!`c,`."d"",e"']),
        (r"/a{1,2}/./x\/,/,b.c", [r"/a{1,2}/./x\/,/", "b.c"]),
        (r"a[,\],].*,a\,b.*", [r"a[,\],].*", r"a\,b.*"]),
        ("a.*, # all of a, for now\nb.*,c.*", ["a.*", "# all of a, for now", "b.*", "c.*"]),
        ('"a,b.c', ['"a', "b.c"]),
        ("/a,b.c", ["/a", "b.c"]),
        ("`a\n`,b.c", ["`a", "`", "b.c"]),
        ("[a,b.c\\", ["[a", "b.c\\"]),
    ],
)
def test_split_rules(text: str, rules: list[str]) -> None:
    assert split_rules(text) == rules


patterns = st.one_of(
    st.text('ab,"`/.', min_size=1, max_size=4).map(lambda name: '"' + name.replace('"', '""') + '"'),
    st.text('ab,"`/.', min_size=1, max_size=4).map(lambda name: "`" + name.replace("`", "``") + "`"),
    st.lists(st.sampled_from(["a", "*", "[a,]", '[!,/"`]', "\\,", '\\"', "\\/", "\\["]), min_size=1, max_size=4).map("".join),
    st.lists(st.sampled_from(["a", ",", "\\/", '"', "`", "a{1,2}", "[,]"]), min_size=1, max_size=4).map(
        lambda parts: f"/{''.join(parts)}/"
    ),
)


@given(st.lists(st.tuples(st.sampled_from(["", "!"]), patterns, patterns).map(lambda parts: f"{parts[0]}{parts[1]}.{parts[2]}")))
def test_splitting_joined_rules_gives_them_back(rules: list[str]) -> None:
    assert split_rules(",".join(rules)) == split_rules("\n".join(rules)) == rules
    TableRules.of(rules)


# ---- refusals ----------------------------------------------------------------------------------------------------------

RULE_HINT = 'write rules as schema.table, with *, ?, [a-z], "quoted names", my\\-shop or /regexes/: shop.*,!shop.event_*'
REGEX_HINT = "write a Go regex (RE2); to leave names out, add a rule with !: shop.*,!shop./_copy$/"
FILE_HINT = "give its rules in place of its name, split by commas or lines"


def refusal(make: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(RefusedRequest) as caught:
        make()
    return caught.value.message, caught.value.hint


def assert_refused(rule: str, column: int, problem: str, hint: str) -> None:
    assert refusal(lambda: TableRules.of(["*.*", rule])) == (f"table rule {rule.strip(chr(32))}, column {column}: {problem}", hint)


LETTER = "a letter, a digit, $, _, *, ?, a [set] or a \\ before it"
SET = "expected [characters] or [!characters], with \\ before \\ and ] and before no letter or digit"


@pytest.mark.parametrize(
    ("rule", "column", "problem"),
    [
        ("!", 2, "expected a pattern, got the end"),
        (".t", 1, "expected a pattern, got '.'"),
        ("db.", 4, "expected a pattern, got the end"),
        ("db..t", 4, "expected a pattern, got '.'"),
        ("db", 3, "expected '.' between the schema's pattern and the table's, got the end"),
        ('"db"*.t', 5, "expected '.' between the schema's pattern and the table's, got '*'"),
        ("a.b.c", 4, "expected the end of the rule, got '.'"),
        ("a./b/c", 6, "expected the end of the rule, got 'c'"),
        ("a.`b`` `c", 9, "expected the end of the rule, got 'c'"),
        ("my-db.*", 3, f"expected {LETTER}, got '-'"),
        ("  my db.* ", 3, f"expected {LETTER}, got ' '"),
        ("a.b # not a comment", 4, f"expected {LETTER}, got ' '"),
        ("a.b\n", 4, f"expected {LETTER}, got '\\n'"),
        ('a"b".c', 2, f"expected {LETTER}, got '\"'"),
        ("a.b]", 4, f"expected {LETTER}, got ']'"),
        ("!!a.b", 2, f"expected {LETTER}, got '!'"),
        ("a.b\\", 5, "expected neither a letter nor a digit nor the end after \\, got the end"),
        (r"a.\t", 4, "expected neither a letter nor a digit nor the end after \\, got 't'"),
        ("a.$x*", 3, "expected \\$, got '$' with wildcards; TiCDC takes $ for the end of the name there"),
        ("a.[b", 3, SET),
        ("a.[]", 3, SET),
        ("a.[!]", 3, SET),
        (r"a.[\d]", 3, SET),
        ("a.x[c-a]", 3, "no Go regex: invalid character class range: c-a"),
        ("a.[[:b:]", 3, "no Go regex: invalid character class range: [:b:]"),
        ("a.[\\é]", 3, "no Go regex: invalid escape sequence: \\é"),
        ("a.\udcff*", 3, "no Go regex: 'utf-8' codec can't encode character '\\udcff' in position 5: surrogates not allowed"),
        ('"a.b', 1, 'expected a name between two "; a " in it is doubled'),
        ('a."".b', 3, 'expected a name between two "; a " in it is doubled'),
        ("a.`b", 3, "expected a name between two `; a ` in it is doubled"),
        ("/a.b", 1, "expected a regex between two /; a / in it is written \\/"),
        ("a.//", 3, "expected a regex between two /; a / in it is written \\/"),
        (r"a./b\/", 3, "expected a regex between two /; a / in it is written \\/"),
    ],
)
def test_refuses_what_is_no_rule(rule: str, column: int, problem: str) -> None:
    assert_refused(rule, column, problem, RULE_HINT)


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("a(?=b)", "invalid perl operator: (?="),
        ("^(?!b)", "invalid perl operator: (?!"),
        ("(?<=b)", "invalid perl operator: (?<="),
        ("(?<!b)", "invalid perl operator: (?<!"),
        ("(?>b)", "invalid perl operator: (?>"),
        ("(?P<x>b)(?P=x)", "invalid perl operator: (?P"),
        ("(?(1)b)", "invalid perl operator: (?("),
        ("(?#b)", "invalid perl operator: (?#"),
        ("(?x)b", "invalid perl operator: (?x"),
        ("(?a:b)", "invalid perl operator: (?a"),
        ("(?i-)b", "invalid perl operator: (?i-)"),
        ("(?P<a-b>b)", "invalid named capture group: (?P<a-b>"),
        (r"(b)\1", r"invalid escape sequence: \1"),
        (r"b\Z", r"invalid escape sequence: \Z"),
        (r"\E", r"invalid escape sequence: \E"),
        (r"b\C", r"\C is RE2's only"),
        (r"\Qb\E\C", r"\C is RE2's only"),
        (r"[\C]", r"\C is RE2's only"),
        (r"[\b]", r"invalid escape sequence: \b"),
        (r"[a-\d]", r"invalid escape sequence: \d"),
        (r"\é", r"invalid escape sequence: \é"),
        (r"\pX", r"invalid character class range: \pX"),
        ("[[:letters:]]", "invalid character class range: [:letters:]"),
        ("x[c-a]", "invalid character class range: c-a"),
        ("[a", "missing ]: [a"),
        ("b[]", "missing ]: []"),
        ("[a-", "missing ]: [a-"),
        ("b(a", "missing ): b(a"),
        ("(?i:a|b", "missing ): (?i:a|b"),
        ("a)b", "unexpected ): a)b"),
        ("*a", "no argument for repetition operator: *"),
        ("a|+", "no argument for repetition operator: +"),
        ("(?i){2}", "no argument for repetition operator: {2}"),
        ("(?)+", "no argument for repetition operator: +"),
        ("a++", "bad repetition operator: ++"),
        ("a*??", "bad repetition operator: *??"),
        ("a{2}{3}", "bad repetition operator: {2}{3}"),
        ("a{3,2}", "invalid repetition size: {3,2}"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("a{1001,}?", "invalid repetition size: {1001,}?"),
        ("a{999999999}", "invalid repetition size: {999999999}"),
        ("a{9999999999}", "{9999999999} is RE2's only"),
        ("a{1,9999999999}", "{1,9999999999} is RE2's only"),
        ("((a?){1000}){1000}", "invalid repetition size: {1000}"),
    ],
)
def test_refuses_regexes_that_go_refuses_in_the_words_of_re2(regex: str, problem: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert_refused(f"a./{regex}/", 3, f"no Go regex: {problem}", REGEX_HINT)
    assert capfd.readouterr().err == ""


def test_refuses_a_regex_too_large_for_re2() -> None:
    assert_refused(r"a./\pL{1000}/", 3, "no Go regex: pattern too large - compile failed", REGEX_HINT)


def test_refuses_files_of_rules() -> None:
    assert_refused("@shop.rules", 1, "rules are not read from files here", FILE_HINT)
    assert refusal(lambda: matching(["@x"], []))[1] == FILE_HINT


# ---- what operators ask for -----------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["*", "a*", "b", '"a"', "/a|b/"]), st.sampled_from(["*", "?1", "t2"])), max_size=6),
    st.lists(
        st.tuples(st.sampled_from(["a", "ab", "B", "mysql"]), st.sampled_from(["t1", "T2", "x"])).map(lambda names: TableName(*names)),
        unique=True,
    ),
    st.booleans(),
)
def test_what_is_requested_is_what_matches_and_what_is_idle_matches_nothing(
    parts: list[tuple[bool, str, str]], tables: list[TableName], case_sensitive: bool
) -> None:
    rules = [f"{'' if positive else '!'}{schema}.{name}" for positive, schema, name in parts]
    result = asked(rules, tables, case_sensitive=case_sensitive)
    assert result.chosen == matching(rules, tables, case_sensitive=case_sensitive)
    assert result.idle == [
        rule for rule in rules if not rule.startswith("!") and not matching([rule], tables, case_sensitive=case_sensitive)
    ]


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        (["s." + "t" * RULE_LENGTH_MAX], "514 characters, more than 512"),
        (["*" * (15 << 20) + ".t"], "15,728,642 characters"),
        (["s.t"] * (RULES_MAX + 1), "10,001 table rules are more than 10,000"),
        ([f"s.t{number}*" for number in range(PATTERNS_MAX + 1)], "1,001 table rules have wildcards or regexes"),
        ([r"s./[\pL\pN]{1000}[\pL\pN]{1000}/"], "pattern too large"),
    ],
    ids=["long", "endless", "many", "many wildcards", "large program"],
)
def test_rules_that_cost_too_much_are_refused_before_they_do(rules: list[str], wrong: str) -> None:
    with pytest.raises(RefusedRequest, match=wrong) as error:
        asked(rules, [TableName("s", "t")], case_sensitive=False)
    assert len(str(error.value)) < 1000


def test_the_names_that_tidb_takes_fit_into_a_rule_however_they_are_written() -> None:
    rule = '"' + '""' * 64 + '"."' + '""' * 64 + '"'
    table = TableName('"' * 64, '"' * 64)
    assert asked([rule], [table], case_sensitive=False).chosen == [table]


def test_ten_thousand_names_are_looked_up_and_a_schema_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def counting(cursor: object, regex: str, *_: object) -> Callable[[str], bool]:
        def found(name: str) -> bool:
            nonlocal compared
            compared += 1
            return re.search(regex, name) is not None

        return found

    monkeypatch.setattr(table_rules, "_pattern_of", counting)
    tables = [TableName("s", f"t{number}") for number in range(RULES_MAX)]
    assert asked([f"s.t{number}" for number in range(RULES_MAX)], tables, case_sensitive=False) == (tables, [])
    assert compared == 0
    assert asked(["x*.t*"], tables, case_sensitive=False) == ([], ["x*.t*"])
    assert compared == 1
    assert asked(["s.t1*", "!*.*"], tables, case_sensitive=False) == ([], [])
    assert compared <= 4, "what a later rule decided is looked at until the first hit"


def test_nobody_works_on_for_who_has_gone() -> None:
    looks = iter([False] * 10)
    rules = [f"s.a{number}*" for number in range(1000)]
    with pytest.raises(RefusedRequest, match="does not wait"):
        asked(rules, [TableName("s", "t")], case_sensitive=False, gone=lambda: next(looks, True))
    assert next(looks, None) is None
