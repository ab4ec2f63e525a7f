"""Plugins of a folder and of packages are listed with built-in parts; only bad ones are refused."""

import os
import stat
from importlib import metadata
from pathlib import Path

import pytest

from apps.dashboard.plugins_now import plugins
from apps.pipelines import operators
from apps.plugins import sources
from apps.plugins.loading import MAX_REASON_LENGTH
from apps.plugins.registry import BUILT_IN, REGISTRY
from apps.rewards import scorers
from apps.tasksets import generators
from tests.plugins.sources import BROKEN, GENERATOR, OPERATOR, SCORER

UNPRINTABLE = "class Unprintable(Exception):\n    def __str__(self):\n        raise KeyError\n"


def refusals() -> dict[str, str]:
    return {one.name: one.refused for one in REGISTRY.plugins() if one.refused}


def test_built_in_parts_and_plugins_are_in_one_list(install):
    install(polite=SCORER, short=OPERATOR, letters=GENERATOR)
    assert {"polite", "math"} <= set(scorers.scorer_names())
    assert {"short", "length"} <= set(operators.operator_names())
    assert {"letters", "sort"} <= set(generators.generator_names())
    listed = {(one.kind, one.name): one for one in REGISTRY.entries()}
    assert listed["scorer", "polite"].version == 3
    assert listed["scorer", "math"].origin == BUILT_IN != listed["scorer", "polite"].origin
    assert {name for kind, name in listed if kind == "scorer"} == set(scorers.scorer_names())


def test_plugin_is_found_by_name_with_typed_options(install):
    install(polite=SCORER, short=OPERATOR, letters=GENERATOR)
    found = scorers.find_scorer("polite")
    assert found.name == "polite" and found.read_options({"word": "thanks"}).word == "thanks"
    assert operators.find_operator("short").summary == "Leaves out long replies."
    assert len(list(generators.find_generator("letters")(5, 0))) == 5


def test_package_in_the_folder_is_a_plugin_and_imports_its_own_modules(install):
    folder = install()
    (folder / "polite").mkdir()
    (folder / "polite" / "__init__.py").write_text(f"{SCORER}\nfrom .words import WORDS\n")
    (folder / "polite" / "words.py").write_text('WORDS = ("please",)\n')
    REGISTRY.use(folder)
    assert scorers.find_scorer("polite").version == 3 and refusals() == {}


def test_files_that_are_not_plugins_are_ignored(install):
    folder = install(_shared="WORDS = 1\n", test_polite=SCORER, conftest=SCORER)
    (folder / "notes.txt").write_text("score")
    (folder / "tests").mkdir()
    assert REGISTRY.plugins() == []


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (BROKEN, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def score(:\n", "cannot be read: SyntaxError"),
        ("X = 1\n", "defines no function of a plugin"),
        (f"{SCORER}\ndef apply(a, b): ...\n", "make a file of each"),
        (f"{SCORER}\nraise SystemExit(3)\n", "SystemExit"),
        (f"{SCORER}\nraise KeyboardInterrupt\n", "KeyboardInterrupt"),
        (f"{SCORER}\n{UNPRINTABLE}\nraise Unprintable\n", "Unprintable"),
        (f"{SCORER}\nraise ValueError('a\\0b\\ud800')\n", "ValueError: a\\0b\\ud800"),
        (SCORER.replace("Rewards a reply with the word.", ""), "has no docstring"),
        (SCORER.replace("VERSION = 3", "VERSION = '3'"), "VERSION is '3'"),
        (
            SCORER.replace("(ScorerOptions)", "(dict)"),
            "Options must be a subclass of ScorerOptions",
        ),
        (SCORER.replace("task, options", "task"), "cannot be called as score("),
        (SCORER.replace("def score", "async def score"), "is asynchronous"),
        (f"{SCORER}\nRANGE = (1, 0)\n", "RANGE is (1, 0)"),
        (f"{SCORER}\nSECONDS = 0\n", "SECONDS is 0"),
        (f"{SCORER}\ndef ask(a): ...\n", "cannot ask a model"),
        (SCORER.replace(', description="The word."', ""), "Options.word has no description"),
        (OPERATOR.replace('"clean"', '"synthesize"'), "cannot add rows"),
        (OPERATOR.replace('"clean"', '"tidy"'), "FAMILY is 'tidy'"),
        (f"{OPERATOR}\nSTAGES = ('group',)\n", "STAGES is ('group',)"),
        (f"{OPERATOR}\nASKS = ('also_in',)\n", "ASKS names 'also_in'"),
        (f"{GENERATOR}\nOptions = dict\n", "defines Options"),
    ],
)
def test_unusable_plugin_alone_is_refused_with_its_reason(install, source, why):
    install(bad=source, good=SCORER)
    assert why in refusals()["bad"] and list(refusals()) == ["bad"]
    assert "good" in scorers.scorer_names() and "bad" not in scorers.scorer_names()


@pytest.mark.parametrize("forever", ["while True:\n    pass", "import time\ntime.sleep(600)"])
def test_plugin_whose_import_never_ends_is_refused(install, monkeypatch, forever):
    install(good=SCORER, endless=f"{SCORER}\n{forever}\n")
    assert scorers.find_scorer("good").version == 3
    monkeypatch.setattr("apps.plugins.loading.LOAD_S", 0.2)
    assert refusals() == {"endless": "its import has not ended after 0.2 s"}


def test_plugin_can_look_up_another_one_while_it_is_imported(install):
    lookup = "from apps.rewards.scorers import find_scorer\nVERSION = find_scorer('one').version\n"
    install(one=SCORER, another=f"{SCORER}\n{lookup}")
    assert refusals() == {} and scorers.find_scorer("another").version == 3


def test_output_of_an_import_is_no_output_of_a_command(install, capsys):
    install(loud=f"{SCORER}\nprint('loaded')\n")
    assert refusals() == {}
    assert capsys.readouterr() == ("", "loaded\n")


def test_long_reason_of_a_refusal_is_cut(install):
    install(long=f"{SCORER}\nraise ValueError('x' * 1_000_000)\n")
    assert len(refusals()["long"]) == MAX_REASON_LENGTH


def test_file_with_the_name_of_a_folder_is_refused(install):
    folder = install(twice=SCORER) / "twice"
    folder.mkdir()
    (folder / "__init__.py").write_text(SCORER.replace("VERSION = 3", "VERSION = 4"))
    assert refusals() == {"twice": "a folder has the same name: rename one of them"}
    assert scorers.find_scorer("twice").version == 4


def test_name_that_is_not_utf_8_is_shown_escaped(install):
    folder = install()
    Path(folder, os.fsdecode(b"odd\xff.py")).write_text(SCORER)
    REGISTRY.use(folder)
    assert list(refusals()) == [r"odd\xff"]


def test_lookup_of_a_refused_plugin_raises_its_reason(install):
    folder = install(bad=BROKEN)
    with pytest.raises(LookupError, match=r"the scorer 'bad' of the plugins folder is refused"):
        scorers.find_scorer("bad")
    install(bad=SCORER.replace("VERSION = 3", f"raise OSError('{folder}/secret')"))
    with pytest.raises(LookupError, match=r"OSError: secret$"):
        scorers.find_scorer("bad")


def test_plugin_with_the_name_of_a_built_in_part_is_refused(install):
    install(math=SCORER)
    assert "built-in scorer has this name" in refusals()["math"]
    assert scorers.find_scorer("math").is_plugin is False


def test_plugin_with_an_invalid_name_is_refused(install):
    install(**{"Not-A-Name": SCORER})
    assert "lowercase letter" in refusals()["Not-A-Name"]


@pytest.mark.parametrize("shared", ["", "_shared.py"])
def test_folder_writable_by_everybody_is_refused_with_all_its_plugins(install, shared):
    folder = install(polite=SCORER, _shared="")
    path = folder / shared
    path.chmod(path.stat().st_mode | stat.S_IWOTH)
    REGISTRY.use(folder)
    assert "writable by everybody" in refusals()["RFTWEB_PLUGINS"]
    with pytest.raises(LookupError, match="the plugins folder is refused"):
        scorers.find_scorer("polite")


def test_plugin_writable_by_everybody_is_refused_alone(install):
    folder = install(polite=SCORER, rude=SCORER)
    os.chmod(folder / "rude.py", 0o666)
    REGISTRY.use(folder)
    assert list(refusals()) == ["rude"] and "polite" in scorers.scorer_names()


def test_missing_folder_is_reported_and_built_in_parts_remain(install, tmp_path):
    install()
    REGISTRY.use(tmp_path / "none")
    assert refusals() == {"RFTWEB_PLUGINS": "does not exist"}
    assert scorers.find_scorer("math").name == "math"


@pytest.fixture
def packages(install, monkeypatch):
    """Return a function that makes an installed package provide plugins by entry points."""

    def offer(group: str, **points: str) -> None:
        found = [metadata.EntryPoint(name, value, group) for name, value in points.items()]
        monkeypatch.setattr(
            sources.metadata,
            "entry_points",
            lambda group: [one for one in found if one.group == group],
        )
        REGISTRY.use(REGISTRY.folder)

    return offer


def test_entry_points_of_installed_packages_are_plugins(install, packages, monkeypatch):
    monkeypatch.syspath_prepend(install(polite_words=SCORER))
    REGISTRY.use(None)
    packages("rftweb.scorers", polite="polite_words")
    assert scorers.find_scorer("polite").name == "polite"
    [entry] = REGISTRY.plugins()
    assert (entry.title, entry.origin, entry.version) == ("scorer polite", "a package", 3)


def test_entry_point_must_refer_to_a_module(install, packages, monkeypatch):
    monkeypatch.syspath_prepend(install(blunt_words=SCORER))
    REGISTRY.use(None)
    packages("rftweb.scorers", blunt="blunt_words:score")
    assert "is not a module" in refusals()["blunt"]


def test_package_plugin_takes_precedence_over_a_folder_plugin_of_the_same_name(install, packages):
    install(polite=SCORER)
    packages("rftweb.scorers", polite="apps.rewards.scorers.sort")
    assert scorers.find_scorer("polite").summary == scorers.find_scorer("sort").summary
    [used, refused] = REGISTRY.plugins()
    assert (used.origin, used.refused) == ("a package", "")
    assert "another scorer plugin has this name" in refused.refused
    shown = [(one.origin, one.version) for one in plugins([])]
    assert shown == [("a package", "1"), ("the plugins folder", "refused")]
