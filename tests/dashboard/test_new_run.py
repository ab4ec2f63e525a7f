"""Making a run in the browser: the form and the YAML say the same, and nothing typed is lost."""

import json
from pathlib import Path

import pytest
from django.conf import settings
from django.http import QueryDict
from django.urls import reverse
from django.utils.html import escape

from apps.accounts.models import AuditEntry, Project
from apps.dashboard.config_diff import list_differing_fields
from apps.dashboard.estimate import estimate_run
from apps.dashboard.knobs import section_knobs
from apps.dashboard.people_time import estimate_people_time, most_ratings
from apps.dashboard.presets import PRESETS, choose_initial_values, presets
from apps.dashboard.run_edits import as_written, shown_values
from apps.dashboard.run_form import RunForm, load_run_form, read_run_form
from apps.dashboard.run_layout import HEADINGS, HOMES
from apps.dashboard.run_names import generated_slug
from apps.feedback.models import Rating
from apps.policies.models import Policy
from apps.rewards.models import Reward
from apps.rewards.unreadable_tasks import list_unreadable
from apps.rollouts.models import Group, Rollout
from apps.runs.algorithms.table import RECOMMENDED, TABLE
from apps.runs.config import RunConfig
from apps.runs.models import Metric, Run, Worker
from apps.runs.parsing import from_yaml, load_yaml, parse_config
from apps.streaming.models import Topic
from apps.tasksets.importing import generate
from apps.tasksets.models import Taskset

EXAMPLES = sorted((settings.BASE_DIR / "examples").rglob("*.yaml"))
SCALE = ("name", "low", "high", "weight", "description")


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def posted(form: RunForm, **changes: str) -> QueryDict:
    """What a browser sends of the form, with some fields turned: dots in their addresses are two
    underscores here.
    """
    sent = QueryDict(mutable=True)
    for knob in form.knobs:
        if knob.kind == "switch":
            sent.update({knob.address: "on"} if knob.value else {})
        elif knob.kind == "names":
            sent.setlist(knob.address, list(knob.value))
        elif knob.kind in ("scorers", "rows"):
            parts = ("scorer", "weight") if knob.kind == "scorers" else SCALE
            rows = enumerate(knob.slots)
            sent.update(
                {
                    f"{knob.address}.{n}.{part}": str(row.get(part, ""))
                    for n, row in rows
                    for part in parts
                }
            )
        else:
            sent[knob.address] = "" if knob.value is None else str(knob.value)
    sent.update({"yaml": form.text, "drawn": form.drawn, "slug": "mine", "title": "Mine"})
    for name, value in changes.items():
        sent[name.replace("__", ".")] = value
    return sent


@pytest.fixture
def lab(seeded):
    return Project.objects.get(slug="lab")


@pytest.fixture
def first(lab, seeded) -> RunForm:
    return load_run_form(lab, choose_initial_values(presets()[0], lab), seeded.alice)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_what_is_written_short_means_the_same(path: Path):
    plan = from_yaml(path.read_text(encoding="utf-8"))
    assert parse_config(as_written(plan)) == plan


def test_every_field_of_the_configuration_has_its_place_in_the_form(lab, seeded):
    said = {
        "serve": {},
        "lora": {},
        "environment": {"name": "maze"},
        "retention": {"days": 3},
        "length_penalty": {},
        "people": {"form_options": {"points": 3}},  # shown to be taken out: stars have no options
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


def test_every_choice_between_sections_offers_all_of_them():
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
def test_a_preset_is_drawn_and_sent_back_as_it_is(lab, seeded, preset):
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


def test_a_preset_begins_with_the_policy_of_the_tasksets_newest_run_or_else_with_the_newest(
    lab, seeded
):
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
def test_a_preset_takes_a_taskset_that_its_scorer_can_judge_whatever_it_is_called(
    seeded, preset, generator, scorer
):
    other = Project.objects.create(slug="other", title="Other")
    generate(other, "set-of-mine", generator, 8, 0)
    generate(other, "untested", "katas_untested", 8, 0)
    said = choose_initial_values(next(one for one in presets() if one.name == preset), other)
    assert (said["taskset"], said["rewards"][0]["scorer"]) == ("set-of-mine", scorer)


def test_where_no_taskset_fits_none_is_chosen_and_the_page_says_how_to_make_one(alice_client, lab):
    text = alice_client.get(reverse("run-new"), {"preset": "code"}).content.decode()
    assert "has answers for the scorer code" in text
    assert reverse("taskset-imports", args=["lab"]) in text
    assert "The configuration is valid" not in text


@pytest.mark.parametrize("is_named", [True, False])
def test_people_judge_alone_what_no_scorer_of_the_preset_can_judge(seeded, is_named):
    other = Project.objects.create(slug="other", title="Other")
    generate(other, "untested", "katas_untested", 8, 0)
    taskset = other.tasksets.get()
    tone = next(one for one in presets() if one.name == "tone")
    said = choose_initial_values(tone, other, taskset if is_named else None)
    assert said["taskset"] == "untested" and "rewards" not in said
    assert said["people"]["per_group"] == said["group_size"]
    assert said["people"]["at_deadline"] == "drop"


def test_a_run_of_a_named_model_begins_with_it(alice_client, lab, seeded):
    policy = Policy.objects.get(pk=seeded.run.policy_id)
    policy.pk = None
    policy.slug = "newer"
    policy.save()
    address = {"project": "lab", "policy": "newer"}
    answer = alice_client.get(reverse("run-new"), address)
    assert answer.context["form"].plan.policy == "newer"  # not that of the taskset's newest run
    assert alice_client.get(reverse("run-new"), address | {"policy": "none"}).status_code == 404


def test_a_run_begins_in_the_project_of_the_newest_taskset(alice_client, seeded):
    newer = Project.objects.create(slug="z-newer", title="Newer")
    newer.memberships.create(user=seeded.alice, role="owner")
    assert alice_client.get(reverse("run-new")).context["project"].slug == "lab"
    generate(newer, "mine", "sort", 8, 0)
    assert alice_client.get(reverse("run-new")).context["project"].slug == "z-newer"


def test_what_its_scorer_cannot_judge_is_told_where_a_configuration_can_run(
    alice_client, lab, first, seeded
):
    answer = alice_client.post(reverse("run-new-check"), posted(first, rewards__0__scorer="math"))
    [unread] = answer.context["unread"]
    assert (unread.scorer, unread.taskset, unread.tasks, unread.of) == ("math", "tone", 8, 8)
    assert "gives no reward for 8 of 8 checked tasks in tone" in answer.content.decode()
    assert list(list_unreadable(first.plan, lab)) == []


def test_a_run_may_begin_from_nothing(alice_client):
    said = alice_client.get(reverse("run-new"), {"preset": "nothing"}).context["form"]
    assert set(load_yaml(said.text)) == {"policy", "taskset"} and "steps" in said.problems


def test_a_preset_keeps_the_name_and_the_project_that_were_chosen(alice_client, first):
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


def test_a_field_that_is_turned_is_turned_in_the_yaml_and_nothing_else(lab, first, seeded):
    form = read_run_form(
        lab,
        posted(first, steps="77", sampling__temperature="0.5", rewards__0__weight="0.25"),
        seeded.alice,
    )
    said = load_yaml(form.text)
    before = {**load_yaml(first.text), "steps": 77, "rewards": [{"scorer": "tone", "weight": 0.25}]}
    assert said == {**before, "sampling": {**before["sampling"], "temperature": 0.5}}


def test_the_yaml_that_is_changed_is_shown_by_the_fields_and_keeps_its_comments(lab, first, seeded):
    text = f"# why\n{first.text.replace('steps: 200', 'steps: 12')}"
    form = read_run_form(lab, posted(first, yaml=text), seeded.alice)
    assert form.text == text and form.plan.steps == 12
    assert next(knob for knob in form.knobs if knob.address == "steps").value == 12


def test_a_field_and_the_yaml_may_be_turned_at_once(lab, first, seeded):
    form = read_run_form(
        lab,
        posted(first, yaml=first.text.replace("steps: 200", "steps: 12"), seed="5"),
        seeded.alice,
    )
    assert (form.plan.steps, form.plan.seed) == (12, 5)


def test_another_algorithm_begins_with_what_its_paper_recommends(lab, first, seeded):
    form = read_run_form(lab, posted(first, algorithm__name="gspo"), seeded.alice)
    assert (
        load_yaml(form.text)["algorithm"] == {"name": "gspo"}
        and form.plan.algorithm.loss.name == "gspo"
    )


def test_a_section_is_switched_on_and_off(lab, first, seeded):
    on = read_run_form(lab, posted(first, lora="on", lora__rank="4"), seeded.alice)
    assert on.plan.lora.rank == 4
    sent = posted(on)
    del sent["lora"]
    assert read_run_form(lab, sent, seeded.alice).plan.lora is None


def test_an_alert_that_is_unticked_is_off_and_can_be_put_on_again(lab, first, seeded):
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
def test_a_field_that_something_stands_for_unsaid_can_be_emptied(lab, first, seeded, field, value):
    form = load_run_form(lab, {**load_yaml(first.text), "serve": {}}, seeded.alice)
    after = read_run_form(lab, posted(form, **{field: ""}), seeded.alice)
    section, name = field.split("__")
    assert getattr(getattr(RunConfig.model_validate(load_yaml(after.text)), section), name) == value


def test_a_field_that_needs_a_value_goes_back_to_what_it_begins_with(lab, first, seeded):
    assert read_run_form(lab, posted(first, sync_interval=""), seeded.alice).plan.sync_interval == 1


def test_a_scorers_own_options_survive_a_change_of_its_weight(lab, seeded):
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
def test_what_is_wrong_is_said_at_its_field_and_stays_as_typed(
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
def test_a_yaml_of_the_wrong_shape_is_refused_in_words(alice_client, first, said):
    answer = alice_client.post(
        reverse("run-new-check"),
        posted(first, yaml=f"policy: tone\nsteps: 3\ntaskset: tone\n{said}"),
    )
    assert answer.status_code == 200 and answer.context["form"].problems


def test_a_nul_that_yaml_spells_is_told_at_its_field(alice_client, first):
    said = first.text.replace("policy: tone", 'policy: "to\\0ne"').replace(
        "scorer: tone", 'scorer: "a\\0"'
    )
    answer = alice_client.post(reverse("run-new"), posted(first, yaml=said, act="create"))
    problems = answer.context["form"].problems
    assert answer.status_code == 422
    assert set(problems) == {"policy", "rewards"} and all(
        "NUL" in words for words in problems.values()
    )


def test_checking_writes_nothing(alice_client, first):
    before = Run.objects.count(), Topic.objects.count()
    assert "is valid" in alice_client.post(reverse("run-new-check"), posted(first)).content.decode()
    assert (Run.objects.count(), Topic.objects.count()) == before


def test_a_run_is_made_and_put_on_record(alice_client, first, seeded):
    answer = alice_client.post(reverse("run-new"), posted(first, act="create"))
    run = Run.objects.get(slug="mine")
    assert answer["Location"] == reverse("run", args=["lab", "mine"])
    assert (run.state, run.owner, run.settings) == ("created", seeded.alice, first.plan)
    assert AuditEntry.objects.filter(
        act="run created", target="run lab/mine", by=seeded.alice
    ).exists()


def test_a_run_may_be_started_at_once(alice_client, first):
    alice_client.post(reverse("run-new"), posted(first, act="start"))
    assert Run.objects.get(slug="mine").is_live


@pytest.mark.parametrize(
    ("slug", "words"),
    [("", "enter a name"), ("a b", "letters, digits"), ("tone-7", "tone-2 is available")],
)
def test_a_name_that_will_not_do_is_said_with_what_would(alice_client, first, slug, words):
    answer = alice_client.post(reverse("run-new"), posted(first, slug=slug, act="create"))
    assert answer.status_code == 422 and words in answer.content.decode()


def test_a_clone_is_the_same_configuration_under_a_free_name(alice_client, seeded):
    answer = alice_client.get(reverse("run-new"), {"like": "lab/tone-7"})
    assert answer.context["form"].plan == seeded.run.settings
    assert (answer.context["slug"], answer.context["differences"]) == ("tone-2", [])
    assert alice_client.get(reverse("run-new"), {"like": "lab/none"}).status_code == 404
    ticked = alice_client.post(reverse("runs-act"), {"act": "clone", "run": seeded.run.pk})
    assert ticked["Location"] == f"{reverse('run-new')}?project=lab&like=lab/tone-7"


def test_a_run_of_a_named_taskset_begins_with_it(alice_client, seeded):
    Taskset.objects.filter(slug="tone").update(slug="mine")
    answer = alice_client.get(reverse("run-new"), {"project": "lab", "taskset": "mine"})
    assert answer.context["form"].plan.taskset == "mine"
    for query in ({"taskset": "none"}, {"taskset": "tone"}):
        assert alice_client.get(reverse("run-new"), query).status_code == 404


def test_a_run_that_its_machine_cannot_hold_says_so(alice_client, seeded):
    page = alice_client.get(reverse("run-new"), {"like": "lab/tone-7"}).content.decode()
    assert "too-large" not in page, "nothing is known of the machine"
    trainer = Worker.objects.create(
        key="t", role="trainer", host="h", pid=1, device="cpu", figures={"machine_bytes": 1_000}
    )
    page = alice_client.get(reverse("run-new"), {"like": "lab/tone-7"}).content.decode()
    assert 'data-testid="too-large"' in page and "has 1.0 kB" in page
    trainer.figures = {"machine_bytes": 10**15}
    trainer.save()
    page = alice_client.get(reverse("run-new"), {"like": "lab/tone-7"}).content.decode()
    assert "too-large" not in page


def test_a_difference_is_told_whatever_is_filled_in(seeded):
    before = seeded.run.settings
    after = parse_config(
        {**before.model_dump(mode="json"), "seed": 3, "algorithm": "gspo", "lora": {}}
    )
    found = {one.field: one.values for one in list_differing_fields([before, after])}
    assert found["seed"] == ("0", "3") and found["algorithm.loss.name"] == ("ppo", "gspo")
    assert found["lora.rank"] == ("–", "16") and "steps" not in found
    assert list_differing_fields([before, before]) == []


def test_time_is_taken_from_an_earlier_run_in_proportion(seeded):
    plan = seeded.run.settings
    known = estimate_run(plan, seeded.run.policy)
    twice = estimate_run(
        parse_config({**plan.model_dump(mode="json"), "group_size": 8}), seeded.run.policy
    )
    assert known.like == seeded.run and known.step_s == known.like_s
    assert twice.step_s == pytest.approx(2 * known.step_s) and known.total_s == pytest.approx(
        200 * known.step_s
    )


def test_lessons_are_learned_at_the_pace_of_the_trainer_alone_in_proportion_to_sequences(seeded):
    run = seeded.run
    Metric.objects.filter(
        run=run, name__in=("step_seconds", "wait_seconds", "starved_people")
    ).delete()
    Metric.record(run, run.step, {"step_seconds": 10.0, "wait_seconds": 6.0, "starved_people": 5.0})
    said = {"policy": run.policy.slug, "taskset": "tone", "steps": 10, "algorithm": {"name": "dpo"}}
    lessons = estimate_run(
        parse_config({**said, "snapshot": {"source": "preferences", "rows": 32}}), run.policy
    )
    assert (
        lessons.step_s == pytest.approx(4.0 * 2 * 32 / run.settings.rows_per_step)
        and not lessons.samples
    )
    assert estimate_run(run.settings, run.policy).step_s == pytest.approx(
        5.0
    )  # sampling is part of it, people are not


def test_what_samples_takes_no_pace_from_what_does_not(seeded):
    run = seeded.run
    plan = run.settings
    lessons = {"steps": 9, "algorithm": {"name": "dpo"}, "snapshot": {"source": "preferences"}}
    lessons = parse_config({"policy": run.policy.slug, "taskset": "tone", **lessons})
    Run.objects.filter(pk=run.pk).update(config=lessons.model_dump(mode="json"))
    assert estimate_run(plan, run.policy).like is None


def test_an_evaluation_is_told_its_answers_and_their_time(alice_client, seeded):
    run = seeded.run
    Metric.objects.filter(run=run, name="explore_tokens_per_s").delete()
    Metric.record(run, run.step, {"explore_tokens_per_s": 100.0})
    said = {
        "policy": run.policy.slug,
        "taskset": "tone",
        "steps": 0,
        "group_size": 4,
        "evaluation": {"tasks": 5},
    }
    found = estimate_run(
        parse_config({**said, "rewards": [{"scorer": "tone"}], "sampling": {"max_tokens": 50}}),
        run.policy,
    )
    assert (found.rows, found.tokens, found.like) == (
        20,
        1_000,
        run,
    ) and found.total_s == pytest.approx(10.0)
    assert (
        "No trainer is needed"
        in alice_client.get(reverse("run-new"), {"preset": "evaluation"}).content.decode()
    )


def test_memory_is_sixteen_bytes_for_each_parameter_that_is_trained(seeded):
    policy = seeded.run.policy
    said = seeded.run.settings.model_dump(mode="json")
    bare = estimate_run(parse_config({**said, "algorithm": {"name": "grpo", "kl": "none"}}), policy)
    assert (
        bare.trainer == 16 * policy.parameters and not bare.memory.is_whole
    )  # its folder is not here
    assert (
        estimate_run(parse_config({**said, "algorithm": "grpo"}), policy).reference
        == 4 * policy.parameters
    )


def test_the_page_lists_memory_part_by_part_as_the_estimate_adds_it_up(
    alice_client, lab, seeded, tmp_path
):
    config = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config))
    Policy.objects.filter(pk=seeded.run.policy_id).update(folder=str(tmp_path))
    generate(lab, "math-easy", "arithmetic", 4, 0)
    page = alice_client.get(reverse("run-new"), {"preset": "gpu-1.5b-full"})
    estimate = page.context["estimate"]
    assert estimate.on_gpu and estimate.trainer + estimate.explorer == sum(
        part.bytes for part in estimate.memory.parts
    )
    text = page.content.decode()
    assert "Memory by part" in text and "KV cache" in text
    assert estimate.memory.updating < estimate.memory.sampling  # the engine sleeps meanwhile


# -- the page in three steps


def test_no_two_fields_under_one_heading_have_the_same_label(lab, seeded):
    said = {
        **choose_initial_values(presets()[0], lab),
        "serve": {},
        "environment": {"name": "maze"},
    }
    form = load_run_form(lab, said, seeded.alice)
    for place in (*form.steps, *form.advanced):
        for part in place.parts:
            labels = [knob.label for knob in part.knobs]
            assert len(labels) == len(set(labels)), (place.title, part.title)


def changed_in(form: RunForm) -> dict[str, str]:
    return {knob.address: knob.usual for knob in form.knobs if knob.is_changed}


def test_values_that_differ_from_their_defaults_are_marked_with_the_default(lab, seeded):
    said = {
        **choose_initial_values(presets()[0], lab),
        "group_size": 8,  # its default
        "algorithm": {"name": "dapo", "loss": {"clip_high": 0.5}},
        "lora": {"rank": 4},
        "alerts": {"starvation": None},
    }
    said.pop("people")
    assert changed_in(load_run_form(lab, said, seeded.alice)) == {
        "algorithm.name": "GRPO",
        "algorithm.loss.clip_high": "0.28",
        "sampling.max_tokens": "64",
        "optimizer.learning_rate": "0.0001",
        "lora": "off",
        "lora.rank": "16",
        "alerts.starvation": "on",
    }


@pytest.mark.parametrize(
    ("address", "section"),
    [
        ("people.deadline_s", {"per_group": 4, "at_deadline": "machine_only"}),
        ("sampling.max_tokens", None),
        ("algorithm.name", None),
        ("algorithm.loss.clip_high", {"name": "grpo", "loss": {}, "aggregation": "token-mean"}),
    ],
)
def test_a_field_goes_back_to_its_default_and_the_others_keep_what_was_typed(
    alice_client, first, address, section
):
    sent = posted(first, steps="77", title="Mine too")
    sent["reset"] = address
    answer = alice_client.post(reverse("run-new"), sent)
    form = answer.context["form"]
    assert address not in changed_in(form) and form.plan.steps == 77
    assert answer.context["title"] == "Mine too"
    said = load_yaml(form.text).get(address.partition(".")[0])
    assert (section or {}).items() <= (said or {}).items() and (section or said is None)
    assert not Run.objects.filter(slug="mine").exists()


def test_what_cannot_be_reset_is_left_alone(alice_client, first):
    sent = posted(first)
    sent.setlist("reset", ["", "no.such.field", "slug"])
    assert alice_client.post(reverse("run-new-check"), sent).context["form"].text == first.text


def test_a_name_is_generated_until_somebody_types_one(alice_client, lab, first, seeded):
    page = alice_client.get(reverse("run-new")).context
    assert page["slug"] == page["generated"] == "tone-grpo"
    sent = posted(first, slug="tone-grpo", generated="tone-grpo", algorithm__name="gspo")
    followed = alice_client.post(reverse("run-new-check"), sent).context
    assert followed["slug"] == followed["generated"] == "tone-gspo"
    typed = {**sent.dict(), "slug": "mine"}
    assert alice_client.post(reverse("run-new-check"), typed).context["slug"] == "mine"
    alice_client.post(reverse("run-new"), {**sent.dict(), "act": "create"})
    assert Run.objects.filter(slug="tone-grpo").exists()  # the name that was on the page
    assert alice_client.get(reverse("run-new")).context["slug"] == "tone-grpo-2"


@pytest.mark.parametrize(
    ("values", "slug"),
    [
        ({"taskset": "math-easy", "algorithm": {"name": "dr_grpo"}}, "math-easy-dr_grpo"),
        ({"taskset": "sums", "algorithm": "dapo", "evaluation": {}}, "sums-evaluation"),
        ({"policy": "smol", "algorithm": {"name": "dpo"}}, "smol-dpo"),
        ({"taskset": ["a"], "algorithm": 5}, "run"),
        ({"taskset": "x" * 90, "algorithm": "grpo"}, "x" * 42),
        ({"taskset": "ton\0e/ü", "algorithm": {"name": None}}, "toneu"),
    ],
)
def test_a_generated_name_says_what_is_learned_and_how(lab, values, slug):
    assert generated_slug(lab, values) == slug


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("steps: 200", "steps: many", ("steps", 3, "valid integer")),
        ("steps: 200", "stepz: 200", ("stepz", 3, "did you mean steps?")),
        ("  max_tokens: 48", "  max_tokenz: 48", ("sampling.max_tokenz", 7, "max_tokens?")),
        ("scorer: tone", "scorer: tune", ("rewards.0.scorer", 21, "tune")),
        ("taskset: tone", "taskset: [", ("yaml", 4, "sequence from line 2")),
        ("taskset: tone", "policy: tone", ("yaml", 2, "occurs twice")),
    ],
)
def test_an_error_names_its_field_and_its_line(alice_client, first, old, new, expected):
    sent = posted(first, yaml=first.text.replace(old, new))
    answer = alice_client.post(reverse("run-new-check"), sent)
    address, line, words = expected
    fault = next(one for one in answer.context["form"].faults if one.address == address)
    assert fault.line == line and words in fault.words
    assert f'data-line="{line}"' in answer.content.decode()


def test_a_field_that_is_no_yaml_keeps_what_was_typed_and_so_do_the_others(lab, first, seeded):
    form = read_run_form(lab, posted(first, pipeline="- {", seed="5", steps="many"), seeded.alice)
    values = {knob.address: knob.value for knob in form.knobs}
    assert (values["pipeline"], values["seed"], values["steps"]) == ("- {", 5, "many")
    assert load_yaml(form.text)["steps"] == "many" and "pipeline" in form.problems


def test_a_number_that_is_none_is_shown_as_it_was_typed(alice_client, first):
    text = first.text.replace("steps: 200", "steps: many")
    page = alice_client.post(reverse("run-new-check"), posted(first, yaml=text)).content.decode()
    assert '<input type="text" id="knob-steps" name="steps" value="many"' in page


def test_all_algorithms_can_be_chosen_the_recommended_ones_first(lab, first):
    knob = next(knob for knob in first.knobs if knob.address == "algorithm.name")
    groups = dict(knob.choice_groups)
    assert [name for name, _, _ in groups["Recommended"]] == list(RECOMMENDED)
    assert {name for name, _, _ in knob.choices} == set(TABLE) and knob.kind == "picker"
    assert all(words.endswith(".") and ". " not in words for _, _, words in knob.choices)


def test_the_bar_sums_the_run_up(alice_client, seeded):
    page = alice_client.get(reverse("run-new"))
    assert page.context["summary"] == (
        "GRPO with tone on tone · 200 steps of 16 × 8 replies · judged by tone, people"
    )
    bar = page.content.decode().partition('id="verdict"')[2]
    assert page.context["summary"] in bar and "no basis for the time" in bar


def asked(plan: RunConfig, **people: object) -> RunConfig:
    said = plan.model_dump(mode="json")
    sizes = {"group_size": 8, "groups_per_step": 2, "steps": 10}
    return parse_config(
        {**said, **sizes, "people": {**said["people"], "simulated": False, **people}}
    )


@pytest.mark.parametrize(
    ("people", "ratings"),
    [
        ({"per_group": 4}, 80),
        ({"per_group": 4, "overlap": 3}, 240),
        ({"per_group": 4, "form": "ranking"}, 20),
        ({"per_group": 4, "form": "pairwise"}, 80),
        ({"per_group": 4, "form": "pairwise", "pairs": 2}, 40),
        ({"per_group": 4, "rater_model": {}, "schedule": {"decisions": 50}}, 50),
        ({"per_group": 4, "simulated": True}, 0),
        ({"per_group": 0}, 0),
    ],
)
def test_the_ratings_that_people_are_asked_for_are_counted(seeded, people, ratings):
    assert most_ratings(asked(seeded.run.settings, **people)) == ratings


def test_peoples_time_is_the_median_of_their_ratings_or_has_no_basis(lab, seeded):
    plan = asked(seeded.run.settings, per_group=4)
    Rating.objects.all().update(seconds=None)
    before = estimate_people_time(plan, lab)
    assert (before.ratings, before.total_s) == (80, None)
    rating = Rating.objects.filter(form="stars", rater__is_simulated=False).first()
    Rating.objects.filter(pk=rating.pk).update(seconds=12.5)
    after = estimate_people_time(plan, lab)
    assert (after.each_s, after.measured, after.total_s) == (12.5, 1, 1_000)
    assert estimate_people_time(asked(plan, form="thumbs"), lab).each_s is None
    assert estimate_people_time(asked(plan, per_group=0), lab) is None


# -- dry start


@pytest.fixture
def tried(alice_client, first):
    """A dry start that alice asked for, as the page shows it."""
    return alice_client.post(reverse("run-new"), posted(first, act="try")).context["tried"]


def test_a_dry_start_asks_one_task_with_the_settings_of_the_form(tried, first):
    run = tried.run
    plan = run.settings
    assert run.is_live and run.is_evaluation and run.tasks_asked == 1
    assert (plan.group_size, plan.steps, plan.people.per_group) == (4, 0, 0)
    assert (plan.sampling, plan.rewards) == (first.plan.sampling, first.plan.rewards)
    assert not Run.objects.filter(slug="mine").exists()


def test_a_dry_start_keeps_what_was_typed_and_stays_on_the_page(alice_client, first, tried):
    address = f"lab/{tried.run.slug}"
    sent = posted(first, act="try", tried=address, steps="77")
    again = alice_client.post(reverse("run-new"), sent)
    assert again.context["form"].plan.steps == 77 and again.context["slug"] == "mine"
    assert again.context["tried"].run != tried.run
    tried.run.refresh_from_db()
    assert tried.run.state == Run.State.STOPPED  # another one took its place
    checked = alice_client.post(reverse("run-new-check"), sent)
    assert checked.context["tried"].run == tried.run


def test_the_replies_of_a_dry_start_come_with_their_rewards(alice_client, tried):
    now = reverse("run-new-tried", args=["lab", tried.run.slug])
    assert alice_client.get(now).context["tried"].replies == []
    [group] = Group.open(tried.run, "explorer@test", 60, 1, 0)
    first, *_ = group.rollouts.order_by("sample_index")
    Rollout.objects.filter(pk=first.pk).update(state="finished", text="A <b>kind</b> reply")
    Reward.record(first, Reward.Source.RULE, "tone", 0.75)
    answer = alice_client.get(now)
    shown = answer.context["tried"]
    assert len(shown.replies) == 4 and shown.replies[0]["reward"] == 0.75
    text = answer.content.decode()
    assert "0.75" in text and "&lt;b&gt;kind" in text and "<b>kind" not in text


def test_only_who_steers_the_project_sees_a_dry_start(client, seeded, tried):
    now = reverse("run-new-tried", args=["lab", tried.run.slug])
    seen = {}
    for person in (seeded.alice, seeded.bob, seeded.carol):
        client.force_login(person)
        seen[person.username] = client.get(now).status_code
    assert seen == {"alice": 200, "bob": 403, "carol": 404}
    client.force_login(seeded.alice)
    assert client.get(reverse("run-new-tried", args=["lab", "tone-7"])).status_code == 404


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": "many"}, "Nothing was tried. Fix the marked fields"),
        ({"rewards__0__scorer": "", "people__at_deadline": "drop"}, "Nothing was tried: "),
        ({"serve": "on"}, "Nothing was tried"),
    ],
)
def test_what_cannot_be_tried_is_said(alice_client, first, changes, words):
    before = Run.objects.count()
    answer = alice_client.post(reverse("run-new"), posted(first, **changes, act="try"))
    assert answer.status_code == 422 and Run.objects.count() == before
    assert words in answer.content.decode()


def test_a_run_that_samples_nothing_offers_no_dry_start(alice_client):
    page = alice_client.get(reverse("run-new"), {"preset": "dpo"})
    assert page.context["form"].plan and not page.context["can_try"]
    assert 'value="try"' not in page.content.decode()
