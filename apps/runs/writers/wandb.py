"""Weights & Biases: a run of one stable id.

Online its server says how far it is; offline a file beside its folder does.
"""

import json
from pathlib import Path

from apps.runs.models import Run
from apps.runs.writers.contract import NoTarget, Step, package

STATE = "rftweb-written.json"  # {run's id: the newest step}


class WandB:
    def __init__(
        self, run: Run, into: str, entity: str | None, folder: Path, offline: bool
    ) -> None:
        self.library = package("wandb", "wandb")
        self.state = folder / STATE
        self.key = f"rftweb-{run.project.slug}-{run.slug}-{run.pk}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.run = self.library.init(
                project=into,
                entity=entity,
                id=self.key,
                name=run.slug,
                group=run.project.slug,
                config=run.config,
                dir=str(folder),
                mode="offline" if offline else "online",
                resume=None if offline else "allow",
                settings=self.library.Settings(
                    silent=True,
                    x_disable_stats=True,
                    disable_git=True,
                    save_code=False,
                    console="off",
                ),
            )
        except (self.library.Error, OSError) as error:
            raise NoTarget(f"Weights & Biases rejected it: {error}") from None
        self.offline = offline
        self.newest = 0

    def last_step(self) -> int:
        if not self.offline:
            return max(self.newest, self.run.starting_step - 1 if self.run.resumed else 0)
        return max(self.newest, self._load_state().get(self.key, 0))

    def write(self, steps: list[Step]) -> None:
        for step in steps:
            self.run.log({**step.metrics, "at": step.at.timestamp()}, step=step.number)
            self.newest = step.number

    def close(self, is_over: bool) -> None:
        """Finish the run, then record the newest step that is safely on disk or sent."""
        self.run.finish()
        if self.offline and self.newest:
            aside = self.state.with_suffix(".tmp")
            aside.write_text(json.dumps({**self._load_state(), self.key: self.newest}))
            aside.replace(self.state)

    def _load_state(self) -> dict[str, int]:
        return json.loads(self.state.read_text()) if self.state.exists() else {}
