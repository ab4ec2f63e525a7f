"""`manage.py plugin`: a working example with its test, and one list of all parts."""

import inspect
import io
import json
import runpy

import pytest
from django.core.management import CommandError, call_command

from rftweb.management.commands.plugin import KINDS
from tests.plugins.sources import BROKEN, SCORER


def said(*arguments: str) -> str:
    out = io.StringIO()
    call_command("plugin", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_works_and_passes_its_test(tmp_path, kind):
    told = said("new", kind, "mine", "--out", str(tmp_path / "made"))
    assert f"RFTWEB_PLUGINS={tmp_path}/made" in told and "pytest" in told
    found = runpy.run_path(str(tmp_path / "made" / "tests" / "test_mine.py"))
    tests = [test for name, test in found.items() if name.startswith("test_mine")]
    assert tests
    for test in tests:
        with_folder = "tmp_path" in inspect.signature(test).parameters
        test(*[tmp_path] if with_folder else [])


def test_a_new_plugin_is_written_to_the_plugins_folder(install, settings):
    settings.PLUGINS = install()
    assert "Install it" not in said("new", "scorer", "mine")
    assert (settings.PLUGINS / "mine.py").is_file()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("math", "there is a scorer 'math'"),
        ("My-Scorer", "is no name of a plugin"),
        ("test_it", "is no name of a plugin"),
    ],
)
def test_invalid_plugin_name_is_refused(tmp_path, name, why):
    with pytest.raises(CommandError, match=why):
        said("new", "scorer", name, "--out", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_never_overwritten(tmp_path):
    said("new", "scorer", "mine", "--out", str(tmp_path))
    with pytest.raises(CommandError, match=r"mine\.py is there already"):
        said("new", "scorer", "mine", "--out", str(tmp_path))


def test_missing_folder_is_reported(settings):
    settings.PLUGINS = None
    with pytest.raises(CommandError, match="--out FOLDER"):
        said("new", "scorer", "mine")


def test_list_shows_built_in_parts_and_plugins_with_their_state(install):
    install(polite=SCORER, broken=BROKEN)
    lines = {line.split()[1]: line for line in said("list").splitlines()}
    assert "built-in" in lines["math"] and lines["polite"].split()[2] == "3"
    assert "refused: ModuleNotFoundError" in lines["broken"]
    for_programs = {one["name"]: one for one in json.loads(said("list", "--json"))}
    assert for_programs["polite"]["state"] == "ready"
    assert for_programs["broken"]["kind"] == "scorer" and for_programs["broken"]["refused"]


def test_list_of_scorers_contains_plugins(install):
    install(polite=SCORER)
    out = io.StringIO()
    call_command("scorers", "polite", "--json", stdout=out)
    assert json.loads(out.getvalue())["options"]["properties"]["word"]["default"] == "please"
