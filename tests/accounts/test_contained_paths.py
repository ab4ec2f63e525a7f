"""Names in an upload never lead outside its folder."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.contained_paths import (
    UnsafePath,
    collision_key,
    contained_file,
    contained_folder,
    safe_parts,
    single_name,
)

HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "a/../../x",
    "a/..",
    "/etc/passwd",
    "//x",
    "a//b",
    "a/",
    "...",
    ". .",
    "a/ /b",
    "C:\\x",
    "C:/x",
    "c:x",
    "\\\\host\\share",
    "a\\..\\..\\x",
    "a\0b",
    "a\nb",
    "\ud800",
    "x" * 1025,
    "é" * 128,
    "\uff0e\uff0e/x",
    "\u2025/x",
    "\u2024\u2024/x",
    ".\u200d./x",
    "\u202e../x",
    "..\uff0fx",
    "..\u2215x",
    "a\uff3cb",
    "\u29f8etc\u29f8passwd",
    None,
    3,
    ["a"],
    b"a",
]
ALPHABET = [
    "a",
    "B",
    ".",
    "..",
    "/",
    "\\",
    "\0",
    ":",
    " ",
    "\u2024",
    "\u2025",
    "\u2215",
    "\uff0f",
    "\u200d",
    "link",
    "in",
]


@pytest.fixture
def folder(tmp_path):
    """Create a folder with a file, a folder, and links of each kind, beside a secret that must not
    be reached.
    """
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "in"
    (inside / "sub").mkdir(parents=True)
    (inside / "sub" / "a.txt").write_text("a")
    (inside / "near").symlink_to("sub/a.txt")
    (inside / "out").symlink_to(tmp_path / "secret")
    (inside / "linked").symlink_to(tmp_path)
    (inside / "circle").symlink_to("circle")
    os.link(tmp_path / "secret", inside / "hard")
    os.mkfifo(inside / "pipe")
    return inside


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_hostile_names_are_refused(folder, name):
    for use in (safe_parts, single_name, lambda name: contained_file(folder, name)):
        with pytest.raises(UnsafePath):
            use(name)


@pytest.mark.parametrize("name", ["out", "linked/secret", "circle", "hard", "pipe", "sub", "none"])
def test_links_and_special_files_are_refused(folder, name):
    with pytest.raises(UnsafePath, match=name.split("/")[0]):
        contained_file(folder, name)


def test_paths_inside_the_folder_are_found(folder):
    assert contained_file(folder, "./sub/a.txt").read_text() == "a"
    assert contained_file(folder, "near") == (folder / "sub" / "a.txt").resolve()
    assert contained_folder(folder, "sub") == (folder / "sub").resolve()
    assert contained_file(folder, "hard", may_share=True)
    assert safe_parts("پوشه\u200cها/日本.parquet") == ("پوشه\u200cها", "日本.parquet")


def test_names_that_collide_on_some_file_systems_share_a_key():
    same = [("A.jsonl",), ("a.JSONL",), ("a\u200b.jsonl",), ("\uff41.jsonl",)]
    assert len({collision_key(parts) for parts in same}) == 1
    assert collision_key(("a.jsonl",)) != collision_key(("b.jsonl",))


@given(st.lists(st.sampled_from(ALPHABET), max_size=8).map("".join) | st.text(max_size=20))
def test_accepted_names_stay_inside_the_folder_in_every_form(name):
    try:
        parts = safe_parts(name)
    except UnsafePath:
        return
    for form in (name, "/".join(parts), "/".join(collision_key(parts))):
        assert os.path.normpath(os.path.join("/root/in", form)).startswith("/root/in/")
        assert "\\" not in form and "\0" not in form
