"""An entity as its file says it, and the small rules of names, ids and periods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.module_files import brain_file

TYPES = {"people": "person", "projects": "project", "organizations": "organization"}


entity, words = map(brain_file, ["entity", "words"])


def read(text: str, path: str = "Brain/entities/people/kim.md", **frontmatter: object):
    return entity.read_entity(path, text, frontmatter, body_at=0, digest="d", types=TYPES)


def test_a_file_says_who_it_is():
    found = read(
        "# Kim Lee\n\nText\n",
        para_id="para:brain:a1b2c3d4e5f6",
        aliases=["Kim", "K. Lee"],
        tags="friend, gardener",
        status="active",
        work_path="~/garden",
    )

    assert (found.key, found.type, found.name) == ("para:brain:a1b2c3d4e5f6", "person", "Kim Lee")
    assert (found.aliases, found.tags) == (("Kim", "K. Lee"), ("friend", "gardener"))
    assert found.fields == {"work_path": "~/garden"}
    assert found.problems == ()
    assert found.names == ("Kim Lee", "Kim", "K. Lee", "kim")


def test_without_an_id_the_path_names_it_and_without_a_title_the_file():
    found = read("Only text.\n", path="Brain/people/old/kim-lee.md")

    assert (found.key, found.name, found.type) == (
        "Brain/people/old/kim-lee.md",
        "kim-lee",
        "person",
    )
    assert read("", path="Brain/notes/x.md").type == ""


def test_an_organizations_own_field_type_is_not_an_entity_type():
    path = "Brain/entities/organizations/acme.md"

    assert read("", path=path, type="cooperative").type == "organization"
    assert read("", path=path, type="cooperative").fields == {"type": "cooperative"}
    assert read("", path=path, type="project").type == "project"
    assert read("", path="Brain/x.md", type="recipe").type == "recipe"


def test_relationships_are_typed_or_free_and_may_have_a_period():
    found = read(
        "# Kim\n\nKnows [[bo]] `[[not]]`.\n\n```\n[[neither]]\n```\n\n## Relationships\n"
        "- [[acme|Acme]] - Founder (2019 to 2021-06)\n- Advisor: [[garden#Beds]]\n"
        "- met [[al]] through [[bo]]\n- no link\n\n## After\n- [[late]] - is no relationship\n",
        attendees=["[[ann]]"],
    )

    assert [
        (relationship.target, relationship.label, relationship.line)
        for relationship in found.relationships
    ] == [
        ("ann", "attendees", 0),
        ("bo", "", 3),
        ("acme", "Founder", 10),
        ("garden", "Advisor", 11),
        ("al", "", 12),
        ("bo", "", 12),
        ("late", "", 16),
    ]
    founder = found.relationships[2].period
    assert (founder.since, founder.until) == ("2019-01-01", "2021-06-30")


def test_facts_have_their_day():
    found = read("## Facts\n- Lives in Bern (since 2020-02)\n- Likes tea\n")

    assert [(fact.text, fact.period.since, fact.line) for fact in found.facts] == [
        ("Lives in Bern", "2020-02-01", 2),
        ("Likes tea", None, 3),
    ]
    assert [fact.text for fact in found.facts if fact.period.holds("2019-12-31")] == ["Likes tea"]


@pytest.mark.parametrize(
    ("line", "text", "since", "until"),
    [
        ("A (since 2020)", "A", "2020-01-01", None),
        ("A (until 2020-02)", "A", None, "2020-02-29"),
        ("A (on 2024-05-01)", "A", "2024-05-01", "2024-05-01"),
        ("A (2020\u2013now)", "A", "2020-01-01", None),
        ("A (2020-02-30 to 2021)", "A (2020-02-30 to 2021)", None, None),
        ("A (since 2020-13)", "A (since 2020-13)", None, None),
        ("A (2020)", "A (2020)", None, None),
    ],
)
def test_a_period_ends_a_line(line: str, text: str, since: str | None, until: str | None):
    assert entity.split_period(line) == (text, entity.Period(since, until))


def test_values_of_a_wrong_kind_are_named_and_the_rest_is_read():
    found = read("# Kim\n", aliases={"a": "b"}, tags=None, name=["x"], status=3)

    assert found.name == "Kim"
    assert found.status == "3"
    assert [problem.split("`")[1] for problem in found.problems] == ["name:", "aliases:", "tags:"]


def test_spellings_of_one_name():
    assert words.fold_name("  Zoë_Müller-Lüdenscheidt ") == "zoe muller ludenscheidt"
    assert words.stem("Kim's Gardens") == "kim garden"
    assert words.stem("cities") == "city"
    assert words.stem("Kiss") == "kiss"
    assert words.slug("Learn & Vibe Build!") == "learn-vibe-build"
    assert words.slug("東京") == "東京"
    assert words.slug("con") == "con-1"
    assert words.slug("?!") == ""


@pytest.mark.parametrize(
    "spelling",
    [
        "para:brain:a1b2c3d4e5f6",
        "PARA:BRAIN:A1B2C3D4E5F6",
        "brain:a1b2c3d4e5f6",
        "para:a1b2c3d4e5f6",
        " a1b2c3d4e5f6 ",
    ],
)
def test_all_spellings_of_an_id_are_one(spelling: str):
    assert words.short_id(spelling) == "a1b2c3d4e5f6"


def test_ids_of_others_keep_their_module():
    assert words.short_id("para:daily:a1b2c3d4e5f6") == "daily:a1b2c3d4e5f6"
    assert words.short_id("project-Parachute") == "project-parachute"


def test_a_new_id_is_one_that_nothing_has():
    taken: list[str] = []

    def is_taken(found: str) -> bool:
        taken.append(found)
        return len(taken) < 3

    assert words.new_para_id(is_taken) == taken[2]
    assert len(set(taken)) == 3


@given(st.text(), st.text())
def test_every_text_is_an_entity(body: str, front: str):
    found = entity.read_entity(
        "Brain/x.md", front + body, {}, body_at=len(front), digest="", types=TYPES
    )

    assert found.body == body
