"""The doctor names plugins that are refused, and says how to mend them."""

from apps.plugins.registry import REGISTRY
from rftweb.doctor import Level
from rftweb.doctor.plugins import check_plugins
from tests.plugins.sources import BROKEN, SCORER


def test_without_plugins_all_is_well():
    [finding] = check_plugins()
    assert (finding.level, finding.text) == (Level.OK, "none")


def test_a_refused_plugin_is_a_warning_with_its_reason_beside_those_that_work(install):
    install(polite=SCORER, broken=BROKEN)
    wrong, good = check_plugins()
    assert wrong.level is Level.WARN and wrong.mend
    assert "scorer broken" in wrong.text and "no_such_module" in wrong.text
    assert (good.level, good.text) == (Level.OK, "scorer polite 3")


def test_a_folder_that_is_not_there_is_a_warning(install, tmp_path):
    install()
    REGISTRY.use(tmp_path / "none")
    [finding] = check_plugins()
    assert finding.level is Level.WARN and "RFTWEB_PLUGINS" in finding.text
