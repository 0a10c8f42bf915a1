"""What people type, and what they find with it: this table is the contract."""

# ruff: noqa: E501, RUF001  rows of a table, and letters that look like others

from __future__ import annotations

from pathlib import Path

import pytest

from tests.search.search_rig import SearchRig

# the text of a note, what finds it, and what does not
SPELLINGS = [
    ("Die Straße ist lang", 'strasse Straße STRASSE straße strass* "strasse ist"', "stras"),
    ("A Große_Straße", 'große_straße "grosse strasse"', "grossestrasse"),
    ("One ﬁle and a ﬂag", 'file ﬁle fil* flag "file and"', "le fi"),
    ("Crème brûlée", 'creme brulee Crème CRÈME "creme brulee"', "crem"),
    ("In München", "munchen münchen", "muenchen"),
    ("Łódź and Đà Nẵng", 'lodz łódź "da nang" Nang', "lodź*x"),
    ("Ærø, Þór, Œuvre, Søren", "aero thor oeuvre soren søren ærø", "ar"),
    ("Iſtanbul İzmir ısı", "istanbul izmir isi ısı", "stan"),
    ("Ｆｕｌｌ　Ｗｉｄｔｈ １２３", 'full ｗｉｄｔｈ "full width" 123', "ful"),
    ("The ℌilbert space, x² and H₂O", "hilbert x2 x² h2o", "x"),
    ("Chapter Ⅳ, step ①", "iv ⅳ 1 ①", "4"),
    ("Parachute™ at 20℃", "parachute 20", "parachutetm"),
    ("ΣΊΣΥΦΟΣ", "σίσυφος σισυφοσ", "σισ"),
    ("Ёлка и йод", "елка ёлка йод", "ел иод"),
    ("أحمد", "احمد أحمد", "حمد"),
    ("call getUserName() here", 'getUserName getusername username UserName getUser getuser name user get user* "get user name"', "username2 sername rname"),
    ("an HTTPServer and an XMLHttpRequest", "httpserver http server xml httprequest request xmlhttp", "https xmlh"),
    ("on GitHub with an iPhone", "github git hub iphone phone", "phon ithub"),
    ("the URLs and PDFs of CEOs", "urls pdfs ceos", "url rls fs"),
    ("a user_name in snake_case", 'user_name user name "user name" user-name snake', "username snakecase"),
    ("kebab-case-name", 'kebab-case-name kebab "case name" kebab_case case', "kebabcase"),
    ("Released v1.2.3 today", '1.2.3 v1.2.3 V1.2.3 v1 1.2 v1.2 "1.2.3" v1*', "1.2.4 2.1 v2 1.23"),
    ("Version 1.2.3-rc1", "1.2.3 v1.2.3 rc1 1.2.3-rc1", "rc v1.2.4"),
    ("on python3.11 since 4.0.2", "python3.11 3.11 python3 4.0.2 python3*", "11.4 python"),
    ("On 2024-03-01 at 10:30", '2024-03-01 2024/03/01 2024.03.01 "2024 03" 2024 10:30', "20240301 01.03.2024 2024-3-1"),
    ("don’t, o'clock", "don't don’t \"don t\" o’clock", "dont"),
    ("C++ and C# at foo@example.org", "c++ c# c foo@example.org example.org", "cpp"),
    ("https://example.com/a/B?c=d", "example.com https://example.com/a/b example", "exam"),
    ("東京タワーに行く", "東京 タワー 東京タワー 行く 京", "大阪 京東"),
    ("サッカー ｶﾞﾗｽ", "サッカー ｶﾞﾗｽ", "ガラス ゼッカー"),
    ("서울에서", "서울 서울에서", "부산"),
    ("café ☕ 🎉", "cafe ☕ 🎉 café", "🎂"),
    ("naïve co-operation", 'naive naïve co-operation "co operation"', "cooperation"),
]  # fmt: skip


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory):
    (vault := tmp_path_factory.mktemp("vault")).mkdir(exist_ok=True)
    rig = SearchRig(vault, tmp_path_factory.mktemp("index") / "search.db")
    for number, (text, _found, _missed) in enumerate(SPELLINGS):
        rig.write(f"{number}.md", f"---\nabout: {text!r}\n---\n\n{text}\n")
    rig.start()
    yield rig
    rig.search.close()


def queries(texts: str) -> list[str]:
    """The words, and what is in quotes whole."""
    parts = texts.split('"')
    return [
        query
        for number, part in enumerate(parts)
        for query in ([f'"{part}"'] if number % 2 else part.split())
    ]


@pytest.mark.parametrize(
    ("number", "row"), list(enumerate(SPELLINGS)), ids=[row[0] for row in SPELLINGS]
)
def test_a_text_is_found_by_these_and_not_by_those(
    rig: SearchRig, number: int, row: tuple[str, str, str]
):
    path = f"{number}.md"
    assert [query for query in queries(row[1]) if path not in rig.find(query)] == []
    assert [query for query in queries(row[2]) if path in rig.find(query)] == []


@pytest.mark.parametrize(
    ("query", "number", "expected"),
    [
        ("strasse", 0, "Die <mark>Straße</mark> ist lang"),
        ("file flag", 2, "One <mark>ﬁle</mark> and a <mark>ﬂag</mark>"),
    ],
)
def test_the_snippet_shows_what_is_written(rig, query, number, expected):
    (hit,) = [hit for hit in rig.ask(query).hits if hit.path == f"{number}.md"]
    assert hit.snippet == expected


@pytest.mark.parametrize(
    ("query", "text", "snippet"),
    [
        ("username", "call getUserName() here", "call get<mark>UserName</mark>() here"),
        ("UserName", "call getUserName() here", "call get<mark>UserName</mark>() here"),
        ("1.2.3", "Released v1.2.3 today", "Released v<mark>1.2.3</mark> today"),
        ("v1.2.3", "Released v1.2.3 today", "Released v<mark>1.2.3</mark> today"),
        ('"full width"', "Ｆｕｌｌ　Ｗｉｄｔｈ １２３", "<mark>Ｆｕｌｌ Ｗｉｄｔｈ</mark> １２３"),
        ("lodz", "Łódź and Đà Nẵng", "<mark>Łódź</mark> and Đà Nẵng"),
    ],
)
def test_parts_of_words_and_other_shapes_are_marked_where_they_stand(rig, query, text, snippet):
    assert snippet in [hit.snippet for hit in rig.ask(query).hits]
    assert text in [row[0] for row in SPELLINGS]


@pytest.mark.parametrize(
    ("query", "number"),
    [("title:strasse", 0), ("about:strasse", 0), ("about:file", 2), ('about:"die strasse"', 0)],
)
def test_so_are_titles_and_keys(tmp_path: Path, query, number):
    (tmp_path / "vault").mkdir()
    rig = SearchRig(tmp_path / "vault", tmp_path / "search.db")
    text = SPELLINGS[number][0]
    rig.write("a.md", f"---\nabout: {text}\ntags: [Straße]\n---\n# {text}\n")
    rig.start()

    assert rig.find(query) == rig.find("tag:strasse") == ["a.md"]
    rig.search.close()
