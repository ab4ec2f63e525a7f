"""One question and one answer: sums from our own seeded generator."""

import verifiers.v1 as vf

from apps.tasksets.generators.arithmetic import generate

__all__ = ["Sums"]


class SumData(vf.TaskData):
    answer: int


class Sum(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def right(self, trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self):
        for row in generate(8, 5):
            yield Sum(
                SumData(
                    prompt=row.prompt[0]["content"],
                    system_prompt="Add.",
                    answer=row.answer["value"],
                ),
                self.config.task,
            )
