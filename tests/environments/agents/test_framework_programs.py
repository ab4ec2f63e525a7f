"""Programs as the users of common frameworks write them, run with the frameworks' own packages.

A thread acts for the policy here, so that it calls tools; tests/stack/test_agents.py runs the same
programs against a policy that samples.
"""

import pytest

from apps.environments.models import EpisodeTurn
from apps.policies.models import Policy
from tests import profiles
from tests.environments.agents.test_tools import CALL, TEMPLATE
from tests.framework_programs import PROGRAMS, results_of
from tests.serving import SERVED

WITHOUT_SEED = ("use_llamaindex.py", "use_agents_sdk.py")  # in their first programs
ADDED = {"a": 1, "b": 2}
BY_PREFIX = ' {"a": 1, "b": 2}}\n</tool_call>'


@pytest.fixture
def run(agent, new_run):
    return new_run(**SERVED, serve={}, max_staleness=4)


@pytest.fixture
def showing(policy, tmp_path) -> None:
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    Policy.objects.filter(pk=policy.pk).update(folder=str(tmp_path))


@pytest.fixture
def calling(actor):
    """Let the policy call the tool when one is offered, and answer with text afterwards."""
    actor.tells = True

    def say(turn: EpisodeTurn) -> str:
        if turn.wishes.get("prefix"):
            return BY_PREFIX
        return CALL if turn.tools else "three"

    actor.say = say
    return actor


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
@pytest.mark.parametrize("name", profiles.nightly_but(PROGRAMS, kept=("use_litellm.py",)))
def test_framework_program_gets_the_expected_results(
    name, showing, run, address, key, calling, tmp_path
):
    found = results_of(name, PROGRAMS[name], f"{address}/v1", key, tmp_path)
    assert set(found) == set(PROGRAMS[name])
    assert {found[way].get("text", "three") for way in found} == {"three"}
    assert found["chat"]["tokens"] == 3
    assert found["tools"]["calls"] == [ADDED]
    refused = found["refused"]
    assert (refused["status"], refused["param"]) == (400, "response_format")
    assert "tool_choice" in refused["error"]
    if "structured" in found:
        assert found["structured"]["sum"] == ADDED
    if "logprobs" in found["options"]:
        assert found["options"]["logprobs"] == [-0.5] * len("three")
    if "responses" in found:
        assert found["responses"]["status"] == 404
        assert "set_default_openai_api" in found["responses"]["error"]
    sent = EpisodeTurn.objects.filter(wishes__max_tokens=8, wishes__seed=7)
    assert sent.count() == (name not in WITHOUT_SEED)
