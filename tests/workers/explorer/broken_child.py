"""The process of library environments, with a guessing game that breaks as its options say."""

import os
import sys
import time

from apps.environments.library import ENVIRONMENTS, GuessNumber, child


class Broken(GuessNumber):
    def reset(self, seed: int, options: dict) -> str:
        self.breaks = options.get("breaks")
        return super().reset(seed, options)

    def step(self, action: str):
        step = super().step(action)
        if self.breaks == "hang":
            time.sleep(3600)
        if self.breaks == "end":
            os._exit(3)
        if self.breaks == "raise":
            raise RuntimeError("out of luck")
        if self.breaks == "lie":
            return type(step)(step.observation, 7.0, step.done)
        return step


ENVIRONMENTS["guess_number"] = Broken

if __name__ == "__main__":
    child.main(int(sys.argv[1]))
