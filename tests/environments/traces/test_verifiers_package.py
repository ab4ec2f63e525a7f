"""The verifiers package reads our lines, and we read the lines that it writes."""

import json

import pytest

from apps.environments.traces.importing import Destination, import_episodes
from apps.environments.traces.looking import BadEpisodes
from apps.rewards.models import Reward
from tests.environments.traces.conftest import TOKENS, rollouts_of
from tests.verifiers_process import said_by

pytestmark = pytest.mark.django_db

READ = """
import json, sys
from verifiers.v1.episode import WireEpisode

for line in open(sys.argv[1]):
    episode = WireEpisode.model_validate_json(line)
    (trace,) = episode.traces
    assert len(trace.branches) == (1 if episode.ok else 0)
    for branch in trace.branches or [None]:
        tokens = [branch.token_ids, branch.sampled_mask, branch.logprobs] if branch else []
        print(json.dumps([episode.ok, trace.reward, trace.num_turns, *tokens]))
"""

WRITE = """
import json, sys
from verifiers.v1.episode import Episode
from verifiers.v1.graph import MessageNode
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import AgentInfo, Trace, TraceTask, Reward
from verifiers.v1.types import AssistantMessage, SystemMessage, UserMessage

def episode(reward):
    data = WireTaskData(idx=0, prompt="2+2", system_prompt="Add.", answer="4")
    task = TraceTask(type="Sum", data=data)
    first, second = AssistantMessage(content="5"), AssistantMessage(content="4")
    no = UserMessage(content="no")
    said = dict(sampled=True, token_ids=[9, 14, 15], mask=[False, True, True])
    nodes = [
        MessageNode(message=SystemMessage(content="Add."), token_ids=[1, 2], mask=[False, False]),
        MessageNode(parent=0, message=UserMessage(content="2+2"), token_ids=[3], mask=[False]),
        MessageNode(parent=1, message=first, logprobs=[-0.5, -0.25], **said),
        MessageNode(parent=2, message=no, token_ids=[4, 5], mask=[False, False]),
        MessageNode(parent=3, message=second, logprobs=[-1.0, -2.0], **said),
    ]
    rewards = {"right": Reward(score=reward, weight=0.5), "asked": None}
    trace = Trace(task=task, agent=AgentInfo(config=WireAgentConfig()), nodes=nodes,
                  rewards=rewards, ok=True, is_completed=True, stop_condition="agent_completed")
    return Episode(task=task, group={"id": "g"}, ok=True, traces=[trace])

print("\\n".join(json.dumps(episode(reward).to_record()) for reward in (1.0, 0.0)))
"""


def test_package_reads_our_lines_with_the_same_tokens(played, file_of):
    first, second, _, broken = [
        json.loads(line) for line in said_by(READ, str(file_of(played))).splitlines()
    ]
    ids = [*TOKENS.prompt_ids, *TOKENS.completion_ids]
    mask = [False] * 3 + [bool(here) for here in TOKENS.action_mask]
    assert first == [True, 1.0, 2, ids, mask, [0.0] * 3 + list(TOKENS.logprobs)]
    assert second[1] == 0.0 and broken[0] is False


def test_lines_written_by_the_package_become_a_run(guessing, taskset, project, policy, tmp_path):
    path = tmp_path / "theirs.jsonl"
    path.write_text(said_by(WRITE))
    with pytest.raises(BadEpisodes, match="environment"):
        import_episodes(path, Destination(project, "theirs", policy, same_tokenizer=True))
    with pytest.raises(BadEpisodes, match="confirm that its tokens are those of the policy"):
        import_episodes(path, Destination(project, "theirs", policy, "guess_number"))
    made = import_episodes(
        path, Destination(project, "theirs", policy, "guess_number", same_tokenizer=True)
    )
    assert (made.episodes, made.groups, made.admitted) == (2, 1, 1)
    first, _ = rollouts_of(made.run)
    assert (first.text, first.tokens.prompt_ids) == ("5\n\nno\n\n4", (1, 2, 3, 9))
    assert (first.tokens.completion_ids, first.tokens.action_mask) == (
        (14, 15, 4, 5, 9, 14, 15),
        (1, 1, 0, 0, 0, 1, 1),
    )
    assert first.tokens.logprobs == (-0.5, -0.25, 0.0, 0.0, 0.0, -1.0, -2.0)
    assert list(
        Reward.objects.filter(rollout__run=made.run).order_by("pk").values_list("value", flat=True)
    ) == [0.5, 0.0]
    assert made.run.taskset.tasks.get().prompt[0] == {"role": "system", "content": "Add."}
