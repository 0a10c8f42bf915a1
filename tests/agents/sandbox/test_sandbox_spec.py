from parachuted.agents.sandbox import options


def test_the_places_in_a_box_are_apart_from_each_other():
    places = [
        options.VAULT_IN_BOX,
        options.HOME_IN_BOX,
        options.SOCKETS_IN_BOX,
        options.OUTSIDE_IN_BOX,
        options.CLI_IN_BOX,
    ]

    assert not [
        (one, other)
        for one in places
        for other in places
        if one != other and f"{one}/".startswith(f"{other}/")
    ]
