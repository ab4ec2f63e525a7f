"""A resident trainer: one model, one optimizer, one permanent thread, and updates by grant."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from apps.policies.manifest import Manifest, read_manifest
from apps.policies.tensor_file import TensorSpec
from workers import precision, weights
from workers.trainer import lora
from workers.trainer.collate import Row
from workers.trainer.gate import Gate, Interrupted, Stopped
from workers.trainer.report import Recorder, StepReport
from workers.trainer.saving import held_bytes, write_checkpoint
from workers.trainer.seam import Batch, SeamTrainer
from workers.trainer.spec import Knobs, TrainerSpec

STAGING = "writing-"


class TrainerHost:
    """Trains one run. Between two grants its thread is blocked and its weights stand still.

    Any thread may call it, one at a time. Whatever ends the training thread is raised to the caller who waits for
    it, and to every later one: such a host is thrown away and another one started from a checkpoint.
    """

    def __init__(self, spec: TrainerSpec) -> None:
        self.spec = spec
        self.gate: Gate[Batch] = Gate()
        self.recorder = Recorder()
        self.trainer: SeamTrainer | None = None
        self.thread: threading.Thread | None = None
        self.staging: Path | None = None  # where the trainer writes before a checkpoint is sealed

    @property
    def step(self) -> int:
        """Updates made so far, skipped ones included."""
        return self.trainer.state.global_step

    def start(self, resume_from: Path | None = None) -> None:
        """Build the trainer on its own thread and block until it waits for its first batch."""
        self.spec.output.mkdir(parents=True, exist_ok=True)
        for abandoned in self.spec.output.glob(f"{STAGING}*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        self.thread = threading.Thread(target=self._live, args=(resume_from,), name="trainer", daemon=True)
        self.thread.start()
        self.gate.wait()

    def grant(
        self,
        rows: Sequence[Row],
        skip: str = "",
        save: bool = False,
        knobs: Knobs | None = None,
        is_unwanted: Callable[[], bool] | None = None,
    ) -> StepReport:
        """Make one update; returns when it is complete, its checkpoint (`save`) included.

        `skip` counts the step but leaves weights and optimizer alone, as a recorded update that was skipped did. `knobs`:
        what this update is made with; None takes the spec's. `is_unwanted`: see Gate.grant; after
        Interrupted this host can only `save` the state before the update, and stop.
        """
        self.gate.grant(Batch(rows, knobs or self.spec.knobs, skip, save), is_unwanted)
        return replace(self.recorder.finish(self.step), checkpoint=save)

    def rest(self) -> None:
        """End an update under way. Afterwards this host can only `save` and stop.

        Raises what ended the thread, unless the thread was interrupted.
        """
        self.gate.interrupt()
        with suppress(Interrupted):
            self.gate.wait()

    def save(self) -> None:
        """Write a checkpoint of the last complete update. Call `rest` before."""
        write_checkpoint(self.trainer)

    @property
    def bytes(self) -> int:
        """Memory of weights, gradients, optimizer state and reference; 0 before `start`."""
        return held_bytes(self.trainer) if self.trainer is not None else 0

    def publish(self, final: Path, version: int, parent: int | None) -> Manifest:
        """Seal the current weights at `final`. Raises weights.NotFinite and what sealing raises."""
        self.gate.wait()
        write = lora.publish if self.spec.lora else weights.publish
        precisions = (self._engine_precision(),)
        return write(self.trainer.model, self.spec.policy, final, version, parent, precisions)

    def _engine_precision(self) -> str:
        """What an engine of this run serves in, if it has a device like this one."""
        wanted = self.spec.engine_precision
        if wanted != precision.AUTO:
            return wanted  # whatever this device computes in: the engine has its own
        parameters = precision.parameters_in(self.spec.policy)
        return precision.choose("engine", wanted, parameters, self.trainer.model.device).name

    def layout(self) -> dict[str, TensorSpec]:
        """The tensors that a publication of these weights holds."""
        return lora.layout(self.trainer.model) if self.spec.lora else read_manifest(self.spec.policy).tensors

    def probe_logprobs(self, token_ids: Sequence[int]) -> list[float]:
        self.gate.wait()
        return weights.probe_logprobs(self.trainer.model, tuple(token_ids))

    def stop(self) -> None:
        """End the thread at its next rest and forget the model."""
        self.gate.stop()
        if self.thread is not None:
            self.thread.join()
        self.trainer = None
        if self.staging is not None:
            shutil.rmtree(self.staging, ignore_errors=True)

    def _build(self, staging: Path) -> SeamTrainer:
        return SeamTrainer(self.spec, self.gate, self.recorder, staging)

    def _live(self, resume_from: Path | None) -> None:
        self.staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=self.spec.output))
        error: BaseException | None = None
        try:
            self.trainer = self._build(self.staging)
            if resume_from:
                self.trainer.restore_state(resume_from)
            self.trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
        except Stopped:
            pass
        except BaseException as ended:  # kept and raised to whoever waits: this thread has nobody above it
            error = ended
        finally:
            if self.trainer is not None:
                self.trainer.give_cores_back()
            self.gate.close(error)
