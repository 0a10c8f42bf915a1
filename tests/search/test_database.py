from __future__ import annotations

from tests.search.search_rig import SearchRig


def test_a_file_that_is_not_a_database_is_set_aside_and_made_again(shut: SearchRig):
    shut.write("a.md", "beans")
    shut.database.write_bytes(b"no database at all " * 1000)

    shut.start()

    assert shut.find("beans") == ["a.md"]
    assert "search.db.garbled" in shut.problems["search"]
    assert shut.database.with_name("search.db.garbled").exists()


def test_one_that_is_garbled_in_the_middle_of_work_is_made_again(rig: SearchRig):
    for number in range(200):
        rig.save(f"{number}.md", f"beans {number} " * 50)
    rig.settled()
    rig.search.close()
    data = bytearray(rig.database.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    rig.database.write_bytes(data)

    rig.search = rig.make()
    rig.start()
    rig.save("new.md", "peas")

    assert rig.find("peas") == ["new.md"]
    assert len(rig.find("beans", limit=100)) == 100
    assert rig.said


def test_one_that_is_deleted_while_it_is_open_is_made_again(rig: SearchRig):
    rig.save("a.md", "beans")
    rig.settled()
    for suffix in ("", "-wal", "-shm"):
        rig.database.with_name(f"search.db{suffix}").unlink(missing_ok=True)

    rig.search.indexer.look()
    rig.until(lambda: rig.said)

    assert rig.find("beans") == ["a.md"]
    assert rig.database.exists()
