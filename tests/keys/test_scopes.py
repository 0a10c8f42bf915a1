from __future__ import annotations

from parachuted.keys import (
    CAPABILITIES,
    EVERYTHING,
    NOBODY,
    Capability,
    Identity,
    KeyScope,
    PathGlob,
)


def who(*scopes: KeyScope) -> Identity:
    return Identity(kind="key", id="k", name="k", scopes=scopes)


def scope(module: str, *capabilities: Capability, paths: list[str] | None = None) -> KeyScope:
    return KeyScope(
        module=module,
        capabilities=frozenset(capabilities),
        paths=None if paths is None else tuple(map(PathGlob, paths)),
    )


def test_no_one_may_do_anything_and_this_machine_everything():
    for capability in CAPABILITIES:
        assert NOBODY.grant("vault", capability) is None
        assert who(*EVERYTHING).grant("vault", capability).sees("any/where")


def test_no_capability_implies_another():
    for given in CAPABILITIES:
        assert [
            capability
            for capability in CAPABILITIES
            if who(scope("vault", given)).grant("vault", capability)
        ] == [given]


def test_a_module_is_not_another_module():
    assert who(scope("curator", "read")).grant("vault", "read") is None
    assert who(scope("vault", "read")).grant("curator", "read") is None
    assert who(scope("*", "read")).grant("whatever", "read") is not None


def test_patterns_limit_what_exists():
    grant = who(scope("vault", "read", paths=["Projects/**", "*.md"])).grant("vault", "read")

    assert [
        path for path in ("Projects/a/b.md", "a.md", "Daily/a.md", "Projects") if grant.sees(path)
    ] == ["Projects/a/b.md", "a.md"]
    assert [
        folder for folder in ("", "Projects", "Projects/a", "Daily") if grant.enters(folder)
    ] == ["", "Projects", "Projects/a"]


def test_two_scopes_together_see_what_either_sees():
    grant = who(scope("vault", "read", paths=["a/**"]), scope("*", "read", paths=["b/**"])).grant(
        "vault", "read"
    )

    assert [path for path in ("a/x", "b/x", "c/x") if grant.sees(path)] == ["a/x", "b/x"]
    assert (
        who(scope("vault", "read", paths=["a/**"]), scope("vault", "read"))
        .grant("vault", "read")
        .sees("c/x")
    )


def test_a_scope_on_the_journal_is_one_on_its_folder_and_no_more():
    grant = who(scope("daily", "read")).grant("vault", "read")
    narrow = who(scope("daily", "read", paths=["Daily/a/**", "Projects/**"])).grant("vault", "read")

    assert [path for path in ("Daily/x.md", "Chat/x.md", "Daily") if grant.sees(path)] == [
        "Daily/x.md"
    ]
    assert (grant.enters(""), grant.enters("Daily/a"), grant.enters("Projects")) == (
        True,
        True,
        False,
    )
    assert [
        path for path in ("Daily/a/x.md", "Daily/x.md", "Projects/x.md") if narrow.sees(path)
    ] == ["Daily/a/x.md"]
    assert who(scope("daily", "read")).grant("vault", "write") is None


def test_no_patterns_at_all_see_nothing():
    grant = who(scope("vault", "read", paths=[])).grant("vault", "read")

    assert not grant.sees("a")
    assert not grant.enters("")


def test_what_two_grants_allow_together_is_what_both_see():
    shop = who(scope("vault", "read", paths=["Shop/**", "Open/**"])).grant("vault", "read")
    notes = who(scope("vault", "read", paths=["**/*.md"])).grant("vault", "read")
    everything = who(scope("vault", "read")).grant("vault", "read")
    assert not {shop, notes, everything} & {None}
    both = shop.both(notes)
    assert [
        both.sees(path) for path in ("Shop/a.md", "Open/a.md", "Shop/a.txt", "Private/a.md")
    ] == [True, True, False, False]
    assert everything.both(shop) == shop.both(everything) == shop
    assert everything.both(everything) == everything


def test_a_call_is_beyond_a_key_of_some_paths_unless_it_is_for_such():
    paths = who(scope("vault", "read", paths=["**"]), scope("system", "read"))
    folder, whole = who(scope("daily", "read")), who(scope("*", "read"))
    asked = (
        (paths, "system"),
        (paths, "vault"),
        (folder, "vault"),
        (folder, "daily"),
        (whole, "vault"),
    )
    beyond = [
        one.is_beyond(one.grant(module, "read"), for_path_keys=is_for_them)
        for is_for_them in (False, True)
        for one, module in asked
    ]
    assert beyond == [True, True, True, False, False] + [False] * 5
    assert [one.has_paths for one in (paths, folder, whole)] == [True, False, False]
