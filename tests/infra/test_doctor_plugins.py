"""The doctor lists plugins that are refused, and says how to fix them."""

from apps.plugins.registry import REGISTRY
from rftweb.doctor import Level
from rftweb.doctor.plugins import check_plugins
from tests.plugins.sources import BROKEN, SCORER


def test_check_is_ok_without_plugins():
    [finding] = check_plugins()
    assert (finding.level, finding.text) == (Level.OK, "none")


def test_refused_plugin_is_a_warning_with_its_reason_and_working_plugins_are_listed(install):
    install(polite=SCORER, broken=BROKEN)
    wrong, good = check_plugins()
    assert wrong.level is Level.WARN and wrong.mend
    assert "scorer broken" in wrong.text and "no_such_module" in wrong.text
    assert (good.level, good.text) == (Level.OK, "scorer polite 3")


def test_missing_plugin_folder_is_a_warning(install, tmp_path):
    install()
    REGISTRY.use(tmp_path / "none")
    [finding] = check_plugins()
    assert finding.level is Level.WARN and "RFTWEB_PLUGINS" in finding.text
