"""A new key may do no more than its maker, on whatever route and path."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.keys import (
    CAPABILITIES,
    EVERYTHING,
    NOBODY,
    Identity,
    KeyScope,
    PathGlob,
    is_narrower,
    parse_words,
)
from tests.keys.test_path_globs import GLOBS

MODULES = ("vault", "daily", "chat", "curator", "*")
FOLDERS = st.sampled_from(["Daily", "Chat", "a"])
LIMITS = st.one_of(GLOBS, st.sampled_from(["Daily/**", "Daily/a/**", "Chat/*", "**"]).map(PathGlob))
SCOPES = st.builds(
    KeyScope,
    module=st.sampled_from(MODULES),
    capabilities=st.frozensets(st.sampled_from(CAPABILITIES), min_size=1),
    paths=st.one_of(st.none(), st.lists(LIMITS, max_size=2).map(tuple)),
)
PATHS = st.tuples(FOLDERS, st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3)).map(
    lambda parts: "/".join([parts[0], *parts[1]])
)


def who(*scopes: KeyScope) -> Identity:
    return Identity(kind="key", id="k", name="k", scopes=scopes)


def words(*each: str, paths: tuple[str, ...] = ()) -> tuple[KeyScope, ...]:
    return tuple(parse_words(one, paths) for one in each)


@st.composite
def lessened(draw: st.DrawFn, scope: KeyScope) -> KeyScope:
    """A scope that allows less, perhaps."""
    module = (
        draw(st.sampled_from(MODULES))
        if scope.module == "*"
        else draw(st.sampled_from([scope.module, "vault"]))
    )
    paths = (
        draw(st.lists(LIMITS, min_size=1, max_size=2).map(tuple))
        if scope.paths is None
        else scope.paths[:1]
    )
    return KeyScope(module=module, capabilities=scope.capabilities, paths=paths)


MAKERS = st.lists(SCOPES, min_size=1, max_size=3)


@given(
    MAKERS.flatmap(lambda old: st.tuples(st.just(old), st.one_of(lessened(old[0]), SCOPES))),
    st.lists(PATHS, min_size=10, max_size=10),
)
def test_what_is_narrower_sees_nothing_that_its_maker_does_not(pair, paths):
    old, new = who(*pair[0]), who(pair[1])
    if not is_narrower(new.scopes, old):
        return
    for module, capability in itertools.product(MODULES[:-1], CAPABILITIES):
        grant, of_maker = new.grant(module, capability), old.grant(module, capability)
        seen = [path for path in paths if grant is not None and grant.sees(path)]
        assert [path for path in seen if of_maker is None or not of_maker.sees(path)] == []


@given(st.lists(SCOPES, max_size=3))
def test_what_names_no_paths_may_be_made_again(scopes):
    without = [scope for scope in scopes if scope.paths is None]
    assert is_narrower(scopes, who(*EVERYTHING))
    assert is_narrower(without, who(*without))
    assert is_narrower(scopes, NOBODY) is (not scopes)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (words("vault:read"), words("vault:read,write")),
        (words("daily:read"), words("*:read")),
        (words("vault:read", paths=("Daily/a/**",)), words("vault:read")),
        (words("daily:read", paths=("Daily/a/**",)), words("*:read")),
    ],
)
def test_what_is_less_may_be_made(new, old):
    assert is_narrower(new, who(*old))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (words("vault:read,write"), words("vault:read")),
        (words("*:read"), words("vault:read", "daily:read", "curator:read", "system:read")),
        (words("vault:read"), words("vault:read", paths=("**",))),
        (words("vault:read"), words("daily:read")),
        (words("vault:read", paths=("**",)), words("daily:read")),
        (words("daily:read"), words("vault:read", paths=("Daily/**",))),
        (words("vault:read", paths=("Daily/a/**",)), words("daily:read")),
        (words("vault:read", paths=("a/x",)), words("vault:read", paths=("a/*",))),
        (words("system:admin"), words("vault:admin")),
    ],
)
def test_what_is_more_or_may_be_may_not(new, old):
    assert not is_narrower(new, who(*old))
