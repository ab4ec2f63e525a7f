"""The asker repeats the question until the sum is right, at most three times."""

import verifiers.v1 as vf
from sums_single import Sum, Sums
from verifiers.v1.envs.single_agent import SingleAgentEnv

__all__ = ["Again", "Asker"]


class Again(Sums):
    """The same sums, asked repeatedly."""


class Asker(SingleAgentEnv):
    async def run(self, task: Sum, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as talk:
            said = await talk.turn()
            for _ in range(2):
                if said.terminated or said.last_reply == str(task.data.answer):
                    return
                said = await talk.turn("no, try again")
