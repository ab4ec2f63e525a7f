"""An example environment in which the policy guesses a number.

RFTWEB_ADDRESS=http://… RFTWEB_TOKEN=rft_usr_… python guess.py
"""

import os
import random
import re
import signal
import threading

from rftweb_client import Client, Step, Task


class Guess:
    name = "guess"
    settings = {"version": "1", "turn_limit": 5, "reward_high": 1.0}

    def reset(self, seed: int, task: Task) -> str:
        self.secret = random.Random(seed).randint(1, 16)
        return "I think of a number from 1 to 16. Guess it."

    def step(self, action: str) -> Step:
        match = re.search(r"[0-9]{1,9}", action)
        if match is None:
            return Step("Say a number.", reward=0.0)
        guess = int(match[0])
        if guess == self.secret:
            return Step("Yes!", reward=1.0, done=True)
        return Step("Higher." if guess < self.secret else "Lower.", reward=0.0)


stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with Client(os.environ["RFTWEB_ADDRESS"], os.environ["RFTWEB_TOKEN"]) as client:
    print("played", client.play(Guess, until=stop.is_set))
