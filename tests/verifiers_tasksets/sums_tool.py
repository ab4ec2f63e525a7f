"""Sums with a tool that adds; run as a program it serves the tool, as verifiers requires of a
toolset.
"""

import verifiers.v1 as vf
from sums_single import Sum, SumData

from apps.tasksets.generators.arithmetic import generate

__all__ = ["Tooled"]


class Adder(vf.Toolset[vf.ToolsetConfig]):
    @vf.tool
    async def add(self, left: int, right: int) -> int:
        """Add two numbers."""
        return left + right


class WithTool(Sum):
    @classmethod
    def toolsets(cls, config):
        return [Adder(vf.ToolsetConfig())]


class Tooled(vf.Taskset[WithTool, vf.TasksetConfig]):
    def load(self):
        for row in generate(8, 5):
            yield WithTool(
                SumData(prompt=row.prompt[0]["content"], answer=row.answer["value"]),
                self.config.task,
            )


if __name__ == "__main__":
    Adder.run()
