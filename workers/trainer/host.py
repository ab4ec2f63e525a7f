"""A resident trainer: one model, one optimizer, one permanent thread, and steps on request."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from apps.policies.manifest import Manifest, read_manifest
from apps.policies.tensor_file import TensorSpec
from workers import precision, weights
from workers.trainer import launching, lora
from workers.trainer.batch_queue import BatchQueue, Interrupted, LeadingBatchQueue, Stopped
from workers.trainer.buffer_grpo_trainer import BufferGRPOTrainer
from workers.trainer.collate import Row
from workers.trainer.lessons.lesson_trainer import LessonTrainer
from workers.trainer.lessons.rows import Lesson
from workers.trainer.memory import held_bytes
from workers.trainer.ranked import Batch
from workers.trainer.ranks import Ranks
from workers.trainer.report import Recorder, StepReport
from workers.trainer.spec import Knobs, TrainerSpec

STAGING = "writing-"
# The trainer class of each kind of data, the same in every rank.
TRAINERS: dict[str, Callable[..., BufferGRPOTrainer | LessonTrainer]] = {
    "rollouts": BufferGRPOTrainer,
    "lessons": LessonTrainer,
}


class TrainerHost:
    """Host of one run's trainer, whose thread blocks between two steps.

    Any thread may call it, one at a time. Whatever ends the training thread is raised to the caller
    that waits for it, and to every later caller. Such a host is discarded, and another one is
    started from a checkpoint.
    """

    kind = "rollouts"  # what it learns from, a key of TRAINERS

    def __init__(self, spec: TrainerSpec) -> None:
        self.spec = spec
        self.batch_queue: BatchQueue[Batch[Row | Lesson]] = (
            LeadingBatchQueue() if spec.processes > 1 else BatchQueue()
        )
        self.recorder = Recorder()
        self.trainer: BufferGRPOTrainer | LessonTrainer | None = None
        self.thread: threading.Thread | None = None
        self.staging: Path | None = None  # where the trainer writes before a checkpoint is sealed

    @property
    def step(self) -> int:
        """Return the number of steps so far, including skipped ones."""
        return self.built.state.global_step

    @property
    def built(self) -> BufferGRPOTrainer | LessonTrainer:
        """Return the trainer, which `start` builds and `stop` releases."""
        assert self.trainer is not None
        return self.trainer

    def start(self, resume_from: Path | None = None) -> None:
        """Build the trainer on its own thread and block until it waits for its first batch."""
        self.spec.output.mkdir(parents=True, exist_ok=True)
        for abandoned in self.spec.output.glob(f"{STAGING}*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        self.thread = threading.Thread(
            target=self._live, args=(resume_from,), name="trainer", daemon=True
        )
        self.thread.start()
        self.batch_queue.wait()

    def update(
        self,
        rows: Sequence[Row | Lesson],
        skip: str = "",
        save: bool = False,
        knobs: Knobs | None = None,
        is_unwanted: Callable[[], bool] | None = None,
    ) -> StepReport:
        """Make one step, and its checkpoint (`save`); return when both are complete.

        `skip` counts the step but leaves weights and optimizer unchanged, like a recorded step
        that was skipped. `knobs`: settings of this step; None takes the spec's. `is_unwanted`:
        see BatchQueue.put. After Interrupted, this host can only `save` the state before the
        step, and stop.
        """
        self.batch_queue.put(Batch(rows, knobs or self.spec.knobs, skip, save), is_unwanted)
        return replace(self.recorder.finish(self.step), checkpoint=save)

    def rest(self) -> None:
        """End a step in progress. Afterwards this host can only `save` and stop.

        Raises the error that ended the thread, unless the thread was interrupted.
        """
        self.batch_queue.interrupt()
        with suppress(Interrupted):
            self.batch_queue.wait()

    def save(self) -> None:
        """Write a checkpoint of the last complete step. Call `rest` before."""
        with self._raise_rank_error():
            self.built.write_checkpoint()

    @property
    def bytes(self) -> int:
        """Return the bytes of weights, gradients, optimizer and reference; 0 before `start`."""
        if self.trainer is None:
            return 0
        return held_bytes(self.trainer.model, self.trainer.reference, self.spec.optimizer)

    def publish(self, final: Path, version: int, parent: int | None) -> Manifest:
        """Seal the current weights at `final`. Raises weights.NotFinite and errors of sealing."""
        self.batch_queue.wait()
        precisions = (self._engine_precision(),)
        model = self._whole_model()
        base = self.spec.policy
        if self.spec.lora:
            assert isinstance(model, PeftModel)
            return lora.publish_adapters(model, base, final, version, parent, precisions)
        assert isinstance(model, PreTrainedModel)
        return weights.publish_weights(model, base, final, version, parent, precisions)

    def _engine_precision(self) -> str:
        """Return the precision of an engine of this run on a device like this one."""
        setting = self.spec.engine_precision
        if setting != precision.AUTO:
            return setting  # the engine has its own precision, whatever this device computes in
        parameters = precision.parameters_in(self.spec.policy)
        device = next(self.built.model.parameters()).device
        return precision.choose("engine", setting, parameters, device).name

    def layout(self) -> dict[str, TensorSpec]:
        """Return the tensors that a publication of these weights holds."""
        if not self.spec.lora:
            return read_manifest(self.spec.policy).tensors
        model = self.built.model
        assert isinstance(model, PeftModel)
        return lora.layout(model)

    def probe_logprobs(self, token_ids: Sequence[int]) -> list[float]:
        self.batch_queue.wait()
        return weights.probe_logprobs(self._whole_model(), tuple(token_ids))

    @property
    def seconds_of_others(self) -> float:
        """Return the processor seconds that the other ranks used for the last step."""
        return self.built.seconds_of_others

    def _whole_model(self) -> torch.nn.Module:
        with self._raise_rank_error():
            whole = self.built.whole_model()
        assert whole is not None  # this is rank 0
        return whole

    @contextmanager
    def _raise_rank_error(self) -> Iterator[None]:
        """Raise RankLost or RankFailed if other ranks did not do their part."""
        try:
            yield
        except Exception as error:
            explained = self.built.ranks.explain(error)
            if explained is error:
                raise
            raise explained from error

    def stop(self) -> None:
        """End the thread when it next waits, and release the model."""
        self.batch_queue.stop()
        if self.thread is not None:
            self.thread.join()
        self.trainer = None
        if self.staging is not None:
            shutil.rmtree(self.staging, ignore_errors=True)

    def _live(self, resume_from: Path | None) -> None:
        self.staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=self.spec.output))
        resume = str(resume_from) if resume_from else None
        start = {"spec": self.spec, "kind": self.kind, "resume_from": resume}
        error: BaseException | None = None
        try:
            with launching.gather_ranks(self.spec, start) as ranks:
                self._train(ranks, resume_from)
        except (
            BaseException
        ) as ended:  # kept for the callers that wait: no caller of this thread could handle it
            error = ended
        finally:
            self.batch_queue.close(error)

    def _train(self, ranks: Ranks, resume_from: Path | None) -> None:
        """Make steps until no further one is granted."""
        spec = self.spec
        if isinstance(self.batch_queue, LeadingBatchQueue):
            self.batch_queue.ranks = ranks
            spec = replace(spec, threads=launching.threads_per_rank(spec))
        try:
            build = TRAINERS[self.kind]
            self.trainer = build(spec, self.batch_queue, self.recorder, self.staging, ranks)
            if resume_from:
                self.trainer.restore_state(resume_from)
            self._make_updates(resume_from)
        except Stopped:
            pass
        finally:
            if self.trainer is not None:
                self.trainer.give_cores_back()

    def _make_updates(self, resume_from: Path | None) -> None:
        """Make all planned steps, or those up to an interrupted one; then wait for the stop.

        Until the stop, all ranks together can still save and publish the last state.
        """
        try:
            self.built.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
        except Interrupted as interrupted:
            self.batch_queue.close(interrupted)
        else:
            self.batch_queue.close(None)
        self.batch_queue.wait_for_stop()
