"""What changed between two trees, whole and with nothing hidden."""

from __future__ import annotations

from parachuted.modules.registry.code_inspection import LARGEST, tree_difference
from parachuted.modules.registry.module_tree import KeepingSink, read_tree


def difference(
    tmp_path, old: dict[str, bytes], new: dict[str, bytes], executable: str | None = None
) -> str:
    trees = []
    for name, files in (("old", old), ("new", new)):
        folder = tmp_path / name
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        folder.mkdir(exist_ok=True)
        if name == "new" and executable:
            (folder / executable).chmod(0o755)
        keeping = KeepingSink(lambda _path: True, largest=LARGEST)
        trees.append((read_tree(folder, sink=keeping), keeping.kept))
    (before, kept), (after, found) = trees
    return tree_difference(before, after, kept, found)


def test_the_same_is_nothing(tmp_path):
    assert difference(tmp_path, {"a": b"x\n"}, {"a": b"x\n"}) == ""


def test_changed_new_and_removed_files_are_shown_line_by_line(tmp_path):
    shown = difference(
        tmp_path,
        {"a": b"1\n2\n", "gone": b"g\n", "same": b""},
        {"a": b"1\n3\n", "new": b"n", "same": b"", "empty": b""},
    )

    assert shown.splitlines() == [
        *("--- a", "+++ a", "@@ -1,2 +1,2 @@", " 1", "-2", "+3"),
        *("--- /dev/null", "+++ empty", "(empty)"),
        *("--- gone", "+++ /dev/null", "@@ -1 +0,0 @@", "-g"),
        *("--- /dev/null", "+++ new", "@@ -0,0 +1 @@", "+n (no end of line)"),
    ]


def test_what_hides_is_spelled_out_and_a_carriage_return_is_not_an_end_of_line(tmp_path):
    shown = difference(tmp_path, {}, {"a": "x = 1\r\x1b[1A# \u202eevil\n".encode()})
    assert "+x = 1\\x0d\\x1b[1A# \\u202eevil" in shown.splitlines()


def test_binary_files_are_named_with_their_digests(tmp_path):
    shown = difference(tmp_path, {"a.so": b"\0a"}, {"a.so": b"\0b", "b.bin": b"\xff"})
    assert shown.count("binary") == 2
    assert "a.so: 2 bytes sha256:" in shown


def test_a_text_is_shown_whole_however_long_it_is(tmp_path):
    shown = difference(tmp_path, {"a": b"x\n"}, {"a": b"x\n" * 5_000 + b"evil\n"})
    assert "+evil" in shown
    assert len(shown.splitlines()) > 5_000


def test_a_file_too_large_to_show_is_named(tmp_path):
    assert "binary a: none -> 1,000,001 bytes" in difference(
        tmp_path, {}, {"a": b"x" * (LARGEST + 1)}
    )


def test_a_mode_is_shown(tmp_path):
    assert (
        difference(tmp_path, {"a": b"x"}, {"a": b"x"}, executable="a") == "mode of a: 644 -> 755\n"
    )
