"""Sample data to look at pages without workers: `python -m tests.seeding --steps 60
--policy FOLDER`.

Everything uses the same interfaces as workers and people, so the ledger of a seeded run is as
consistent as that of a real one.
"""

import argparse
import os
import random
import re
import uuid

import django

PASSWORD = "correct horse battery"
STARS_SCATTER = 0.12


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    django.setup()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="committed updates")
    parser.add_argument("--slug", default="tone-7")
    parser.add_argument(
        "--policy", default="", help="sealed folder whose tokenizer spells the tokens"
    )
    choices = parser.parse_args()
    seeded = seed_run(choices.slug, choices.steps, choices.policy)
    print(
        f"run {seeded.slug} at step {seeded.step}; sign in as alice, bob or carol with {PASSWORD!r}"
    )


def seed_run(
    slug: str, steps: int, folder: str = "", tasks: int = 500, password: str | None = PASSWORD
):
    """Create a tone run at step `steps`, with groups waiting for people, dropped groups, and
    acknowledged weights.

    Without a password none of its users can sign in by form; hashing one takes time.
    """
    from apps.runs.models import Run
    from apps.runs.parsing import parse_config

    project, people = _stage(folder, tasks, password)
    plan = parse_config(
        {
            "policy": "tone",
            "taskset": "tone",
            "steps": 200,
            "group_size": 4,
            "groups_per_step": 4,
            "max_staleness": 2,
            "rewards": [{"scorer": "tone"}],
            "people": {"per_group": 2, "deadline_s": 1800, "simulated": True},
        }
    )
    run = Run.create(
        project=project,
        slug=slug,
        title="Polite replies, rated by people",
        plan=plan,
        owner=people["alice"],
    )
    run.start(by=people["alice"])
    story = Story(run, people, random.Random(7))
    for _ in range(steps):
        story.step()
    story.leave_open()
    run.refresh_from_db()
    return run


def _stage(folder: str, tasks: int, password: str | None):
    from apps.accounts.models import Membership, Project, User
    from apps.policies.models import Policy
    from apps.tasksets.importing import generate

    project, is_new = Project.objects.get_or_create(slug="lab", defaults={"title": "The lab"})
    people = {}
    for name, role in (
        ("alice", "owner"),
        ("bob", "rater"),
        ("carol", None),
        ("simulated", "rater"),
    ):
        person, fresh = User.objects.get_or_create(
            username=name, defaults={"is_simulated": name == "simulated"}
        )
        if fresh and password:
            person.set_password(password)
            person.save()
        if role:
            Membership.objects.get_or_create(project=project, user=person, defaults={"role": role})
        people[name] = person
    if is_new:
        generate(project, "tone", "tone", tasks, 0)
        Policy.objects.create(
            project=project,
            slug="tone",
            title="Tone",
            source="seeding",
            folder=folder or "/nonexistent",
            fingerprint="0" * 16,
            architecture="Qwen3ForCausalLM",
            parameters=3_100_000,
            context_tokens=256,
        )
    return project, people


def people_of() -> dict:
    """Return the sample users by name."""
    from apps.accounts.models import User

    return {name: User.objects.get(username=name) for name in ("alice", "bob", "carol")}


class Story:
    """A run's life, step by step: replies become more polite, people agree more or less."""

    def __init__(self, run, people: dict, chance: random.Random) -> None:
        from apps.runs.models import Worker

        self.run = run
        self.people = people
        self.chance = chance
        self.fence = 0
        self.engines = [
            Worker.objects.get_or_create(
                key=f"explorer@lab:{n}",
                defaults={
                    "role": "explorer",
                    "host": "lab",
                    "pid": n,
                    "engine": "transformers",
                    "doing": f"sampling {run.slug}",
                },
            )[0]
            for n in (1, 2)
        ]
        Worker.objects.get_or_create(
            key="trainer@lab:3",
            defaults={"role": "trainer", "host": "lab", "pid": 3, "doing": f"step of {run.slug}"},
        )

    @property
    def skill(self) -> float:
        return min(0.95, 0.35 + self.run.step / 90)

    def step(self) -> None:
        from apps.buffer.models import commit_step, plan_step

        self.sample(self.run.settings.groups_per_step)
        self.judge(rated=2)
        self.refine()
        self.run.claim_trainer("trainer@lab:3", 60)
        planned = plan_step(self.run, self.run.fence)
        with self.run.fenced(self.run.fence) as locked:
            commit_step(locked, planned, self.run.fence)
        self.run.release_trainer(self.run.fence)
        self.run.refresh_from_db()
        self.measure(planned)
        self.publish()

    def sample(self, groups: int, broken: bool = False) -> list:
        from apps.rollouts.models import Group, Outcome, Rollout

        opened = Group.open(self.run, self.engines[0].key, 60, groups, self.run.published_version)
        outcomes = [
            (
                Outcome(r.pk, None, "", "engine died")
                if broken
                else self.outcome(r.pk, r.group.task.answer["object"])
            )
            for r in (
                Rollout.objects.filter(group__in=opened)
                .select_related("group__task")
                .order_by("pk")
            )
        ]
        Group.finish_rollouts({g.pk: g.claimed for g in opened}, outcomes)
        self.run.refresh_from_db()
        return opened

    def outcome(self, pk: int, wanted: str):
        from apps.rollouts.models import Outcome

        text = self.reply(wanted)
        return Outcome(pk, self.tokens(text), text, "stop")

    def reply(self, wanted: str) -> str:
        from apps.tasksets.tone_language import PLACES, SENTENCES

        manners = [
            "polite" if self.chance.random() < self.skill else self.chance.choice(["flat", "rude"])
            for _ in PLACES
        ]
        return " ".join(
            self.chance.choice(SENTENCES[place][manner]).format(object=wanted)
            for place, manner in zip(PLACES, manners, strict=True)
        )

    def tokens(self, text: str):
        from apps.rollouts.payload import Tokens
        from apps.rollouts.token_text import load_vocabulary

        vocabulary = load_vocabulary(self.run.policy.folder)
        numbers = (
            {piece: number for number, piece in vocabulary.pieces.items()} if vocabulary else {}
        )
        ids = tuple(
            numbers.get(word, len(word)) for word in re.findall(r"[A-Za-z]+|[^\sA-Za-z]", text)
        )
        logprobs = tuple(-self.chance.expovariate(1 + 6 * self.skill) for _ in ids)
        old = max(0, self.run.published_version - self.chance.choice([0, 0, 0, 1]))
        segments = (
            ((0, old), (len(ids) // 2, self.run.published_version))
            if old != self.run.published_version
            else ((0, old),)
        )
        return Tokens((3, 4, 5), ids, logprobs, (1,) * len(ids), segments)

    def judge(self, rated: int) -> None:
        from apps.feedback.item_opening import open_items
        from apps.feedback.models import Item
        from apps.feedback.ratings.stars import Stars, give
        from apps.rewards.scorers import find_scorer
        from apps.rewards.scoring import AnsweredQuestion, open_questions, record_verdicts
        from apps.rollouts.models import Group

        groups = Group.objects.claim("scoring", "scorer@lab", 60, 100, self.run)
        answers = [
            AnsweredQuestion(q, find_scorer(q.scorer).judge(q.rollouts, q.task, q.options))
            for q in open_questions(groups)
        ]
        open_items(record_verdicts(groups, answers))
        truth = {answer.question.rollout_ids[0]: answer.verdicts[0].value for answer in answers}
        for group in groups:
            # The items for people: the group's id decides which replies they are, but not how many.
            for [rollout] in (
                Item.objects.filter(group=group)
                .order_by("members")
                .values_list("members", flat=True)[:rated]
            ):
                rater = self.people[self.chance.choice(["bob", "simulated", "simulated"])]
                value = min(1.0, max(0.0, self.chance.gauss(truth[rollout], STARS_SCATTER)))
                give(rater, Stars(rollout, 1 + round(4 * value), uuid.uuid4()))

    def refine(self) -> None:
        from apps.feedback.aggregating import write_people_rewards
        from apps.pipelines.refining import refine
        from apps.rollouts.models import Group

        groups = Group.objects.claim("judged", "refiner@lab", 60, 100, self.run)
        write_people_rewards(groups)
        refine(groups)

    def measure(self, planned) -> None:
        from apps.runs.models import Metric

        def near(centre: float, spread: float) -> float:
            return max(0.0, self.chance.gauss(centre, spread))

        n = self.run.step
        s = self.skill
        Metric.record(
            self.run,
            n,
            {
                "reward_mean": near(s, 0.02),
                "reward_std": near(0.32 - s / 5, 0.01),
                "success": near(s**3, 0.03),
                "reward_human": near(s - 0.04, 0.03),
                "reward_rule": (machine := near(s + 0.04, 0.02)),
                "reward_machine": machine,
                "people_share": 0.5,
                "completion_length": near(26 - n / 20, 0.8),
                "kl": near(n * 4e-4, 1e-3),
                "behaviour_kl": near(2e-3, 5e-4),
                "entropy": near(2.4 - s, 0.05),
                "staleness": near(0.8, 0.2),
                "behaviour_gap": near(0.004, 0.001),
                "explore_tokens_per_s": near(1900, 120),
                "judged_per_s": near(8, 1),
                "refined_per_s": near(8, 1),
                "groups_ready": near(20, 4),
                "groups_under_way": near(16, 3),
                "step_seconds": near(3.1, 0.3),
                "wait_seconds": near(0.9, 0.3),
                "loss": near(0.1, 0.02),
                "clip_share": near(0.05, 0.01),
                "grad_norm": near(0.4, 0.05),
                "reward_human_std": near(0.2, 0.02),
                "dead_groups": near(0.3 - s / 5, 0.03),
                "train_tokens_per_s": near(1700, 120),
                "people_per_h": near(22, 4),
                "simulated_per_h": near(40, 5),
                "starved_people": near(0.6, 0.2),
                "starved_judging": near(0.1, 0.05),
                "starved_sampling": near(0.2, 0.1),
                "learning_rate": 1e-5,
                "tokens": near(900, 60),
                "rows": 16.0,
            },
        )
        self.run.topic.record("step_committed", step=n, reward=s)

    def movement(self) -> dict:
        """Return movements as a trainer measures them: later layers move more, and all move less
        over time.
        """
        pace = 0.004 / (1 + self.run.step / 20)
        groups = [
            ["embedding", pace / 4],
            *([f"layer {n}", pace * (1 + n / 4)] for n in range(6)),
            ["last norm", pace / 9],
        ]
        return {"whole": pace, "groups": groups, "sampled": False}

    def publish(self) -> None:
        from apps.runs.models import Acknowledgement, WeightVersion

        fingerprint = f"{self.chance.getrandbits(64):016x}"
        version = WeightVersion.objects.create(
            run=self.run,
            version=self.run.step,
            step=self.run.step,
            parent=self.run.weight_versions.filter(version=self.run.step - 1).first(),
            movement=self.movement(),
            folder="/nonexistent",
            fingerprint=fingerprint,
            bytes=12_400_000,
        )
        version.verify()
        version.publish()
        for engine in self.engines:
            Acknowledgement.record(
                version,
                engine,
                fingerprint=fingerprint,
                probe_gap=abs(self.chance.gauss(0.003, 0.001)),
                milliseconds=self.chance.uniform(60, 95),
            )
        self.run.refresh_from_db()

    def leave_open(self) -> None:
        """Leave some groups waiting, some admitted, one dropped with its reason, and one being
        sampled.
        """
        from apps.rollouts.models import Group

        self.sample(2)
        self.judge(rated=2)
        self.refine()
        self.sample(1, broken=True)
        self.judge(rated=0)
        self.refine()
        self.sample(4)
        self.judge(rated=0)
        Group.open(self.run, self.engines[1].key, 3600, 1, self.run.published_version)
        type(self.run).objects.filter(pk=self.run.pk).update(
            waiting_on="2 more groups (4 waiting for people)"
        )


if __name__ == "__main__":
    main()
