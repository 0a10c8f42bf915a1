from parachuted.agents.sandbox import sandbox_spec


def test_the_places_in_a_box_are_apart_from_each_other():
    places = [
        sandbox_spec.VAULT_IN_BOX,
        sandbox_spec.HOME_IN_BOX,
        sandbox_spec.SOCKETS_IN_BOX,
        sandbox_spec.OUTSIDE_IN_BOX,
        sandbox_spec.CLI_IN_BOX,
    ]

    assert not [
        (one, other)
        for one in places
        for other in places
        if one != other and f"{one}/".startswith(f"{other}/")
    ]
