#!/usr/bin/env bash
# Guess: an optional field of Discord's application object ("owner?" in its documentation) may be absent, as in
# the answer of a server that knows none.
# Seen: hikari 2.7.0 reads the object without its optional counts, but raises KeyError('owner') for one without an
# owner; what it raises is no HikariError, so a handler for the library's own errors does not see it.
# Why it matters: a bot asks for its application to learn whether it may read messages; it must not end over a
# field that the platform may leave out.
source "$(dirname "$0")/support/common.sh"

cat >"$work/run.py" <<'X'
from importlib.metadata import version
from unittest.mock import Mock

import hikari
from hikari.impl import EntityFactoryImpl

user = {"id": "1", "username": "notes", "discriminator": "0", "global_name": None, "avatar": None}
whole = {
    "id": "2",
    "name": "Notes",
    "icon": None,
    "description": "",
    "bot_public": False,
    "bot_require_code_grant": False,
    "verify_key": "00",
    "flags": 0,
    "owner": user,
    "team": None,
    "approximate_guild_count": 0,
    "approximate_user_install_count": 0,
}


def read(left_out: str) -> str:
    document = {name: value for name, value in whole.items() if name != left_out}
    try:
        EntityFactoryImpl(Mock()).deserialize_application(document)
    except hikari.HikariError as error:
        return f"an error of hikari's, {type(error).__name__}"
    except KeyError as error:
        return f"KeyError({error})"
    return "read"


print(f"hikari {version('hikari')}: whole: {read('')}; without its owner: {read('owner')}")
X
python_packages hikari==2.7.0
"$python" "$work/run.py" | tee "$work/out"
grep -q "whole: read; without its owner: KeyError('owner')" "$work/out" || changed "see the line above"
