"""Creating a run in the browser: the form and the YAML stay in sync, and no input is lost."""

from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse
from django.utils.html import escape

from apps.accounts.models import AuditEntry, Project
from apps.dashboard.config_diff import list_differing_fields
from apps.dashboard.knobs import section_knobs
from apps.dashboard.presets import PRESETS, choose_initial_values, presets
from apps.dashboard.run_edits import as_written, shown_values
from apps.dashboard.run_form import load_run_form, read_run_form
from apps.dashboard.run_layout import HEADINGS, HOMES
from apps.policies.models import Policy
from apps.rewards.unreadable_tasks import list_unreadable
from apps.runs.config import RunConfig
from apps.runs.models import Run, Worker
from apps.runs.parsing import from_yaml, load_yaml, parse_config
from apps.streaming.models import Topic
from apps.tasksets.importing import generate
from apps.tasksets.models import Taskset
from tests.dashboard.run_forms import alice_client, first, lab, posted  # noqa: F401  (fixtures)

EXAMPLES = sorted((settings.BASE_DIR / "examples").rglob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_shortened_configuration_means_the_same(path: Path):
    plan = from_yaml(path.read_text(encoding="utf-8"))
    assert parse_config(as_written(plan)) == plan


def test_every_field_of_the_configuration_is_in_the_form_once(lab, seeded):
    said = {
        "serve": {},
        "lora": {},
        "environment": {"name": "maze"},
        "retention": {"days": 3},
        "length_penalty": {},
        "people": {"form_options": {"points": 3}},  # shown for removal: stars have no options
    }
    form = load_run_form(lab, {**choose_initial_values(presets()[0], lab), **said}, seeded.alice)
    addresses = [knob.address for knob in form.knobs]
    assert len(addresses) == len(set(addresses))
    assert {address.split(".")[0] for address in addresses} == set(RunConfig.model_fields)
    assert [
        name
        for name in (*HOMES, *HEADINGS)
        if not any(f"{address}.".startswith(f"{name}.") for address in addresses)
    ] == []


def test_every_choice_between_sections_offers_all_options():
    knobs = {
        knob.address: knob
        for knob in section_knobs(RunConfig, shown_values({"policy": "p", "steps": 1}), {}, {})
    }
    assert "bots" in [value for value, _, _ in knobs["selection.name"].choices]
    assert {
        "algorithm.loss.name",
        "algorithm.advantage.name",
        "reading.order.name",
        "reading.replay.name",
    } <= set(knobs)


@pytest.mark.parametrize("preset", [preset.name for preset in PRESETS])
def test_preset_is_unchanged_after_drawing_and_posting_the_form(lab, seeded, preset):
    chosen = next((one for one in presets() if one.name == preset), None)
    if chosen is None:
        assert (
            next(one for one in PRESETS if one.name == preset).needs not in RunConfig.model_fields
        )
        return
    generate(lab, "sums", "math", 8, 0)
    generate(lab, "katas", "katas", 8, 0)
    form = load_run_form(lab, choose_initial_values(chosen, lab), seeded.alice)
    again = read_run_form(lab, posted(form), seeded.alice)
    assert (again.text, again.plan) == (form.text, form.plan)
    assert (form.problems == {}) == (preset != "nothing") and not list(
        list_unreadable(form.plan, lab) if form.plan else ()
    )


def test_preset_starts_with_the_policy_of_the_tasksets_newest_run_or_the_newest(lab, seeded):
    policy = Policy.objects.get(pk=seeded.run.policy_id)
    policy.pk = None
    policy.slug = "newer"
    policy.save()
    generate(lab, "math-easy", "arithmetic", 4, 0)
    tone, math = (choose_initial_values(preset, lab) for preset in presets()[:2])
    assert (tone["taskset"], tone["policy"]) == ("tone", seeded.run.policy.slug)
    assert (math["taskset"], math["policy"]) == ("math-easy", "newer")


@pytest.mark.parametrize(
    ("preset", "generator", "scorer"),
    [
        ("math", "math", "math"),
        ("code", "katas", "code"),
        ("mix", "sort", "sort"),
        ("evaluation", "sort", "sort"),
        ("evaluation", "countdown", "countdown"),
        ("tone", "tone_dialogue", "tone_dialogue"),
    ],
)
def test_preset_chooses_a_taskset_that_its_scorer_can_judge(seeded, preset, generator, scorer):
    other = Project.objects.create(slug="other", title="Other")
    generate(other, "set-of-mine", generator, 8, 0)
    generate(other, "untested", "katas_untested", 8, 0)
    said = choose_initial_values(next(one for one in presets() if one.name == preset), other)
    assert (said["taskset"], said["rewards"][0]["scorer"]) == ("set-of-mine", scorer)


def test_preset_without_a_matching_taskset_explains_how_to_create_one(alice_client, lab):
    text = alice_client.get(reverse("run-new"), {"preset": "code"}).content.decode()
    assert "has answers for the scorer code" in text
    assert reverse("taskset-imports", args=["lab"]) in text
    assert "The configuration is valid" not in text


@pytest.mark.parametrize("is_named", [True, False])
def test_preset_uses_only_human_ratings_if_its_scorer_cannot_judge_the_taskset(seeded, is_named):
    other = Project.objects.create(slug="other", title="Other")
    generate(other, "untested", "katas_untested", 8, 0)
    taskset = other.tasksets.get()
    tone = next(one for one in presets() if one.name == "tone")
    said = choose_initial_values(tone, other, taskset if is_named else None)
    assert said["taskset"] == "untested" and "rewards" not in said
    assert said["people"]["per_group"] == said["group_size"]
    assert said["people"]["at_deadline"] == "drop"


def test_run_form_starts_with_the_model_from_the_url(alice_client, lab, seeded):
    policy = Policy.objects.get(pk=seeded.run.policy_id)
    policy.pk = None
    policy.slug = "newer"
    policy.save()
    address = {"project": "lab", "policy": "newer"}
    answer = alice_client.get(reverse("run-new"), address)
    assert answer.context["form"].plan.policy == "newer"  # not that of the newest run
    assert alice_client.get(reverse("run-new"), address | {"policy": "none"}).status_code == 404


@pytest.fixture
def language_model(seeded) -> Policy:
    policy = Policy.objects.get(pk=seeded.run.policy_id)
    policy.pk = None
    policy.slug = "smollm2"
    policy.parameters = 135_000_000
    policy.save()
    return policy


def test_run_form_with_a_taskset_starts_with_a_preset_that_can_judge_it(alice_client, lab):
    generate(lab, "sums", "math", 8, 0)
    answer = alice_client.get(reverse("run-new"), {"project": "lab", "taskset": "sums"})
    assert (answer.context["chosen"], answer.context["form"].plan.taskset) == ("math", "sums")


def test_another_preset_keeps_the_taskset_and_model_from_the_url(alice_client, lab, language_model):
    generate(lab, "older", "math", 8, 0)
    generate(lab, "newer", "math", 8, 0)
    link = {"project": "lab", "taskset": "older", "policy": "smollm2"}
    cards = alice_client.get(reverse("run-new"), link).content.decode()
    kept = "preset=code&amp;taskset=older&amp;policy=smollm2"
    assert kept in cards
    form = alice_client.get(reverse("run-new"), link).context["form"]
    checked = posted(form, named_taskset="older")
    checked["named_taskset"], checked["named_policy"] = "older", "smollm2"
    assert kept in alice_client.post(reverse("run-new-check"), checked).content.decode()


def test_preset_adapts_its_settings_to_a_language_model_on_a_cpu(lab, language_model, seeded):
    generate(lab, "sums", "math", 8, 0)
    Worker.objects.create(key="t", role=Worker.Role.TRAINER, host="here", pid=1, device="cpu")
    math = next(one for one in presets() if one.name == "math")
    tiny = Policy.objects.get(pk=seeded.run.policy_id)
    small = choose_initial_values(math, lab, policy=tiny)
    large = choose_initial_values(math, lab, policy=language_model)
    assert small["optimizer"]["learning_rate"] == 2e-4 and small["sampling"]["max_tokens"] == 1024
    assert large["optimizer"]["learning_rate"] == 1e-5
    assert large["sampling"] == {"max_tokens": 128, "temperature": 0.7}
    assert large["groups_per_step"] == 4


@pytest.mark.parametrize("preset", [one.name for one in PRESETS if one.rate])
def test_a_preset_is_valid_for_a_language_model_on_a_cpu(lab, seeded, language_model, preset):
    generate(lab, "sums", "math", 8, 0)
    generate(lab, "katas", "katas", 8, 0)
    Worker.objects.create(key="t", role=Worker.Role.TRAINER, host="here", pid=1, device="cpu")
    chosen = next(one for one in PRESETS if one.name == preset)
    values = choose_initial_values(chosen, lab, policy=language_model)
    assert load_run_form(lab, values, seeded.alice).problems == {}


@pytest.mark.parametrize(("rate", "warns"), [("2e-5", False), ("5e-4", True)])
def test_page_warns_of_an_unusually_high_learning_rate(
    alice_client, first, language_model, rate, warns
):
    changed = posted(first, policy="smollm2", optimizer__learning_rate=rate)
    answer = alice_client.post(reverse("run-new-check"), changed)
    assert answer.context["usual_rate"] == (1e-5 if warns else None)
    assert ("is high for smollm2" in answer.content.decode()) == warns


@pytest.mark.parametrize(
    ("algorithm", "trainer", "engine", "warns"),
    [
        ("grpo", "auto", "auto", False),
        ("grpo", "bfloat16", "bfloat16", False),
        ("grpo", "bfloat16", "auto", True),  # float32, for a small model on a CPU
        ("decoupled", "bfloat16", "float32", False),
    ],
)
def test_page_warns_if_trainer_and_engine_precision_differ(
    alice_client, first, language_model, algorithm, trainer, engine, warns
):
    fields = {
        "policy": "smollm2",
        "algorithm__name": algorithm,
        "precision__trainer": trainer,
        "precision__engine": engine,
    }
    answer = alice_client.post(reverse("run-new-check"), posted(first, **fields))
    assert answer.context["form"].plan is not None
    assert ("their probabilities differ" in answer.content.decode()) == warns


def test_run_form_starts_in_the_project_of_the_newest_taskset(alice_client, seeded):
    newer = Project.objects.create(slug="z-newer", title="Newer")
    newer.memberships.create(user=seeded.alice, role="owner")
    assert alice_client.get(reverse("run-new")).context["project"].slug == "lab"
    generate(newer, "mine", "sort", 8, 0)
    assert alice_client.get(reverse("run-new")).context["project"].slug == "z-newer"


def test_tasks_that_the_scorer_cannot_judge_are_reported(alice_client, lab, first, seeded):
    answer = alice_client.post(reverse("run-new-check"), posted(first, rewards__0__scorer="math"))
    [unread] = answer.context["unread"]
    assert (unread.scorer, unread.taskset, unread.tasks, unread.of) == ("math", "tone", 8, 8)
    assert "gives no reward for 8 of 8 checked tasks in tone" in answer.content.decode()
    assert list(list_unreadable(first.plan, lab)) == []


def test_run_form_can_start_empty(alice_client):
    said = alice_client.get(reverse("run-new"), {"preset": "nothing"}).context["form"]
    assert set(load_yaml(said.text)) == {"policy", "taskset"} and "steps" in said.problems


def test_preset_links_keep_the_chosen_name_and_project(alice_client, first):
    cards = alice_client.post(
        reverse("run-new-check"), posted(first, preset="math")
    ).content.decode()
    assert (
        'href="?project=lab&amp;preset=code&amp;slug=mine&amp;title=Mine"' in cards
        and cards.count('aria-current="true"') == 1
    )
    assert (
        'value="mine"'
        in alice_client.get(
            "/runs/new/?project=lab&preset=code&slug=mine&title=Mine"
        ).content.decode()
    )


def test_changed_field_changes_only_its_yaml_value(lab, first, seeded):
    form = read_run_form(
        lab,
        posted(first, steps="77", sampling__temperature="0.5", rewards__0__weight="0.25"),
        seeded.alice,
    )
    said = load_yaml(form.text)
    before = {**load_yaml(first.text), "steps": 77, "rewards": [{"scorer": "tone", "weight": 0.25}]}
    assert said == {**before, "sampling": {**before["sampling"], "temperature": 0.5}}


def test_changed_yaml_updates_the_fields_and_keeps_comments(lab, first, seeded):
    text = f"# why\n{first.text.replace('steps: 200', 'steps: 12')}"
    form = read_run_form(lab, posted(first, yaml=text), seeded.alice)
    assert form.text == text and form.plan.steps == 12
    assert next(knob for knob in form.knobs if knob.address == "steps").value == 12


def test_field_and_yaml_can_be_changed_at_once(lab, first, seeded):
    form = read_run_form(
        lab,
        posted(first, yaml=first.text.replace("steps: 200", "steps: 12"), seed="5"),
        seeded.alice,
    )
    assert (form.plan.steps, form.plan.seed) == (12, 5)


def test_another_algorithm_starts_with_its_recommended_settings(lab, first, seeded):
    form = read_run_form(lab, posted(first, algorithm__name="gspo"), seeded.alice)
    assert (
        load_yaml(form.text)["algorithm"] == {"name": "gspo"}
        and form.plan.algorithm.loss.name == "gspo"
    )


def test_section_can_be_switched_on_and_off(lab, first, seeded):
    on = read_run_form(lab, posted(first, lora="on", lora__rank="4"), seeded.alice)
    assert on.plan.lora.rank == 4
    sent = posted(on)
    del sent["lora"]
    assert read_run_form(lab, sent, seeded.alice).plan.lora is None


def test_unchecked_alert_is_off_and_can_be_switched_on_again(lab, first, seeded):
    sent = posted(first)
    del sent["alerts.starvation"]
    off = read_run_form(lab, sent, seeded.alice)
    assert off.plan.alerts.starvation is None and off.plan.alerts.kl is not None
    assert load_yaml(off.text)["alerts"] == {"starvation": None}
    assert (
        read_run_form(
            lab, posted(off, alerts__starvation="on"), seeded.alice
        ).plan.alerts.starvation
        is not None
    )


@pytest.mark.parametrize(
    ("field", "value"), [("serve__settle_s", None), ("hacking__format_scorers", ())]
)
def test_field_with_an_implicit_value_can_be_emptied(lab, first, seeded, field, value):
    form = load_run_form(lab, {**load_yaml(first.text), "serve": {}}, seeded.alice)
    after = read_run_form(lab, posted(form, **{field: ""}), seeded.alice)
    section, name = field.split("__")
    assert getattr(getattr(RunConfig.model_validate(load_yaml(after.text)), section), name) == value


def test_emptied_required_field_returns_to_its_default(lab, first, seeded):
    assert read_run_form(lab, posted(first, sync_interval=""), seeded.alice).plan.sync_interval == 1


def test_scorer_options_survive_a_change_of_weight(lab, seeded):
    said = {
        **choose_initial_values(presets()[0], lab),
        "rewards": [{"scorer": "length", "options": {"target": 20}}, {"scorer": "tone"}],
    }
    form = load_run_form(lab, said, seeded.alice)
    after = load_yaml(
        read_run_form(lab, posted(form, rewards__0__weight="0.5"), seeded.alice).text
    )["rewards"]
    assert after == [
        {"scorer": "length", "options": {"target": 20}, "weight": 0.5},
        {"scorer": "tone"},
    ]


@pytest.mark.parametrize(
    ("changes", "address", "words"),
    [
        ({"steps": "0"}, "steps", "plan 1 step or more"),
        ({"steps": "many"}, "steps", "valid integer"),
        ({"optimizer__learning_rate": "2"}, "optimizer.learning_rate", "less than or equal to 1"),
        ({"group_size": "1", "people__per_group": "0"}, "group_size", "compares the rollouts"),
        ({"policy": "huge"}, "policy", "no policy 'huge'"),
        ({"people__per_group": "30"}, "people.per_group", "more than group_size"),
        ({"pipeline": "- operator: nope"}, "pipeline", "nope"),
        ({"pipeline": "- {"}, "pipeline", "not valid YAML"),
        ({"yaml": "policy: [\n"}, "yaml", "not valid YAML"),
        ({"yaml": "a: &x 1\nb: *x\n"}, "yaml", "aliases are not allowed"),
        ({"yaml": "- a\n"}, "yaml", "must be a mapping"),
    ],
)
def test_error_is_shown_at_its_field_and_the_input_is_kept(
    alice_client, lab, first, changes, address, words
):
    answer = alice_client.post(reverse("run-new"), posted(first, **changes, act="start"))
    html = answer.content.decode()
    assert answer.status_code == 422 and not Run.objects.filter(slug="mine").exists()
    assert words in answer.context["form"].problems[address], answer.context["form"].problems
    assert escape(next(iter(changes.values())).splitlines()[0]) in html and 'value="mine"' in html


@pytest.mark.parametrize(
    "said",
    [
        "people: {rubric: 5}",
        "lora: 5",
        "rewards: tone",
        "selection: [1]",
        "algorithm: {name: [1]}",
        "tasksets: 1",
        "steps: {a: 1}",
    ],
)
def test_yaml_with_a_wrong_structure_is_refused_with_a_message(alice_client, first, said):
    answer = alice_client.post(
        reverse("run-new-check"),
        posted(first, yaml=f"policy: tone\nsteps: 3\ntaskset: tone\n{said}"),
    )
    assert answer.status_code == 200 and answer.context["form"].problems


def test_nul_character_in_the_yaml_is_reported_at_its_field(alice_client, first):
    said = first.text.replace("policy: tone", 'policy: "to\\0ne"').replace(
        "scorer: tone", 'scorer: "a\\0"'
    )
    answer = alice_client.post(reverse("run-new"), posted(first, yaml=said, act="create"))
    problems = answer.context["form"].problems
    assert answer.status_code == 422
    assert set(problems) == {"policy", "rewards"} and all(
        "NUL" in words for words in problems.values()
    )


def test_checking_a_new_run_writes_nothing(alice_client, first):
    before = Run.objects.count(), Topic.objects.count()
    assert "is valid" in alice_client.post(reverse("run-new-check"), posted(first)).content.decode()
    assert (Run.objects.count(), Topic.objects.count()) == before


def test_run_is_created_and_audited(alice_client, first, seeded):
    answer = alice_client.post(reverse("run-new"), posted(first, act="create"))
    run = Run.objects.get(slug="mine")
    assert answer["Location"] == reverse("run", args=["lab", "mine"])
    assert (run.state, run.owner, run.settings) == ("created", seeded.alice, first.plan)
    assert AuditEntry.objects.filter(
        action="run created", target="run lab/mine", by=seeded.alice
    ).exists()


def test_run_can_be_started_at_once(alice_client, first):
    alice_client.post(reverse("run-new"), posted(first, act="start"))
    assert Run.objects.get(slug="mine").is_live


@pytest.mark.parametrize(
    ("slug", "words"),
    [("", "enter a name"), ("a b", "letters, digits"), ("tone-7", "tone-2 is available")],
)
def test_invalid_name_is_refused_with_advice(alice_client, first, slug, words):
    answer = alice_client.post(reverse("run-new"), posted(first, slug=slug, act="create"))
    assert answer.status_code == 422 and words in answer.content.decode()


def test_clone_has_the_same_configuration_and_an_unused_name(alice_client, seeded):
    answer = alice_client.get(reverse("run-new"), {"like": "lab/tone-7"})
    assert answer.context["form"].plan == seeded.run.settings
    assert (answer.context["slug"], answer.context["differences"]) == ("tone-2", [])
    assert alice_client.get(reverse("run-new"), {"like": "lab/none"}).status_code == 404
    ticked = alice_client.post(reverse("runs-act"), {"act": "clone", "run": seeded.run.pk})
    assert ticked["Location"] == f"{reverse('run-new')}?project=lab&like=lab/tone-7"


def test_run_form_starts_with_the_taskset_from_the_url(alice_client, seeded):
    Taskset.objects.filter(slug="tone").update(slug="mine")
    answer = alice_client.get(reverse("run-new"), {"project": "lab", "taskset": "mine"})
    assert answer.context["form"].plan.taskset == "mine"
    for query in ({"taskset": "none"}, {"taskset": "tone"}):
        assert alice_client.get(reverse("run-new"), query).status_code == 404


def test_run_that_exceeds_the_machines_memory_is_reported(alice_client, seeded):
    page = alice_client.get(reverse("run-new"), {"like": "lab/tone-7"}).content.decode()
    assert "too-large" not in page, "the machine is unknown"
    trainer = Worker.objects.create(
        key="t", role="trainer", host="h", pid=1, device="cpu", metrics={"machine_bytes": 1_000}
    )
    page = alice_client.get(reverse("run-new"), {"like": "lab/tone-7"}).content.decode()
    assert 'data-testid="too-large"' in page and "has 1.0 kB" in page
    trainer.metrics = {"machine_bytes": 10**15}
    trainer.save()
    page = alice_client.get(reverse("run-new"), {"like": "lab/tone-7"}).content.decode()
    assert "too-large" not in page


def test_differences_between_configurations_are_listed(seeded):
    before = seeded.run.settings
    after = parse_config(
        {**before.model_dump(mode="json"), "seed": 3, "algorithm": "gspo", "lora": {}}
    )
    found = {one.field: one.values for one in list_differing_fields([before, after])}
    assert found["seed"] == ("0", "3") and found["algorithm.loss.name"] == ("ppo", "gspo")
    assert found["lora.rank"] == ("–", "16") and "steps" not in found
    assert list_differing_fields([before, before]) == []
