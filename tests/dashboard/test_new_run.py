"""Making a run in the browser: the form and the YAML say the same, and nothing typed is lost."""

from pathlib import Path

import pytest
from django.conf import settings
from django.http import QueryDict
from django.urls import reverse
from django.utils.html import escape

from apps.accounts.models import AuditEntry, Project
from apps.dashboard.config_diff import differences
from apps.dashboard.estimate import estimate_of
from apps.dashboard.knobs import knobs_of
from apps.dashboard.presets import PRESETS, begun, presets
from apps.dashboard.run_edits import as_written, shown_values
from apps.dashboard.run_form import GROUPS, RunForm, form_of, read
from apps.policies.models import Policy
from apps.rewards.unread import unread_of
from apps.runs.config import RunConfig, from_yaml, loaded, parse
from apps.runs.models import Metric, Run
from apps.streaming.models import Topic
from apps.tasksets.importing import generate

EXAMPLES = sorted((settings.BASE_DIR / "examples").rglob("*.yaml"))
SCALE = ("name", "low", "high", "weight", "description")


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def posted(form: RunForm, **changes: str) -> QueryDict:
    """What a browser sends of the form, with some fields turned: dots in their addresses are two underscores here."""
    sent = QueryDict(mutable=True)
    for knob in form.knobs:
        if knob.kind == "switch":
            sent.update({knob.address: "on"} if knob.value else {})
        elif knob.kind == "names":
            sent.setlist(knob.address, list(knob.value))
        elif knob.kind in ("scorers", "rows"):
            parts = ("scorer", "weight") if knob.kind == "scorers" else SCALE
            rows = enumerate(knob.slots)
            sent.update({f"{knob.address}.{n}.{part}": str(row.get(part, "")) for n, row in rows for part in parts})
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
    return form_of(lab, begun(presets()[0], lab), seeded.alice)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_what_is_written_short_means_the_same(path: Path):
    plan = from_yaml(path.read_text(encoding="utf-8"))
    assert parse(as_written(plan)) == plan


def test_every_field_of_the_configuration_has_its_place_in_the_form(lab, seeded):
    said = {"serve": {}, "lora": {}, "environment": {"name": "maze"}, "retention": {"days": 3}, "length_penalty": {}}
    form = form_of(lab, {**begun(presets()[0], lab), **said}, seeded.alice)
    addresses = [knob.address for knob in form.knobs]
    assert len(addresses) == len(set(addresses))
    assert {address.split(".")[0] for address in addresses} == set(RunConfig.model_fields)
    named = [address for _, _, group in GROUPS for address in group]
    assert [name for name in named if not any(f"{address}.".startswith(f"{name}.") for address in addresses)] == []


def test_every_choice_between_sections_offers_all_of_them():
    knobs = {knob.address: knob for knob in knobs_of(RunConfig, shown_values({"policy": "p", "steps": 1}), {}, {})}
    assert "bots" in [value for value, _, _ in knobs["selection.name"].choices]
    assert {"algorithm.loss.name", "algorithm.advantage.name", "reading.order.name", "reading.replay.name"} <= set(knobs)


@pytest.mark.parametrize("preset", [preset.name for preset in PRESETS])
def test_a_preset_is_drawn_and_sent_back_as_it_is(lab, seeded, preset):
    chosen = next((one for one in presets() if one.name == preset), None)
    if chosen is None:
        assert next(one for one in PRESETS if one.name == preset).needs not in RunConfig.model_fields
        return
    generate(lab, "sums", "math", 8, 0)
    generate(lab, "katas", "katas", 8, 0)
    form = form_of(lab, begun(chosen, lab), seeded.alice)
    again = read(lab, posted(form), seeded.alice)
    assert (again.text, again.plan) == (form.text, form.plan)
    assert (form.problems == {}) == (preset != "nothing") and not list(unread_of(form.plan, lab) if form.plan else ())


def test_a_preset_begins_with_the_policy_of_the_tasksets_newest_run_or_else_with_the_newest(lab, seeded):
    policy = Policy.objects.get(pk=seeded.run.policy_id)
    policy.pk, policy.slug = None, "newer"
    policy.save()
    generate(lab, "math-easy", "arithmetic", 4, 0)
    tone, math = (begun(preset, lab) for preset in presets()[:2])
    assert (tone["taskset"], tone["policy"]) == ("tone", seeded.run.policy.slug)
    assert (math["taskset"], math["policy"]) == ("math-easy", "newer")


@pytest.mark.parametrize(
    ("preset", "generator", "scorer"),
    [("math", "math", "math"), ("code", "katas", "code"), ("mix", "sort", "sort"), ("evaluation", "sort", "sort"),
     ("evaluation", "countdown", "countdown"), ("tone", "tone_dialogue", "tone_dialogue")],
)  # fmt: skip
def test_a_preset_takes_a_taskset_that_its_scorer_can_judge_whatever_it_is_called(seeded, preset, generator, scorer):
    other = Project.objects.create(slug="other", title="Other")
    generate(other, "set-of-mine", generator, 8, 0)
    generate(other, "untested", "katas_untested", 8, 0)
    said = begun(next(one for one in presets() if one.name == preset), other)
    assert (said["taskset"], said["rewards"][0]["scorer"]) == ("set-of-mine", scorer)


def test_where_no_taskset_fits_none_is_chosen_and_the_page_says_how_to_make_one(alice_client, lab):
    text = alice_client.get(reverse("run-new"), {"preset": "code"}).content.decode()
    assert "has answers that the scorer code can judge by" in text and "manage.py taskset generate" in text
    assert "This configuration can run" not in text


def test_what_its_scorer_cannot_judge_is_told_where_a_configuration_can_run(alice_client, lab, first, seeded):
    answer = alice_client.post(reverse("run-new-check"), posted(first, rewards__0__scorer="math"))
    [unread] = answer.context["unread"]
    assert (unread.scorer, unread.taskset, unread.tasks, unread.of) == ("math", "tone", 8, 8)
    assert "would give no reward for 8 of the 8 tasks of tone" in answer.content.decode()
    assert list(unread_of(first.plan, lab)) == []


def test_a_run_may_begin_from_nothing(alice_client):
    said = alice_client.get(reverse("run-new"), {"preset": "nothing"}).context["form"]
    assert set(loaded(said.text)) == {"policy", "taskset"} and "steps" in said.problems


def test_a_preset_keeps_the_name_and_the_project_that_were_chosen(alice_client, first):
    cards = alice_client.post(reverse("run-new-check"), posted(first, preset="math")).content.decode()
    assert 'href="?project=lab&amp;preset=code&amp;slug=mine&amp;title=Mine"' in cards and cards.count('aria-current="true"') == 1
    assert 'value="mine"' in alice_client.get("/runs/new/?project=lab&preset=code&slug=mine&title=Mine").content.decode()


def test_a_field_that_is_turned_is_turned_in_the_yaml_and_nothing_else(lab, first, seeded):
    form = read(lab, posted(first, steps="77", sampling__temperature="0.5", rewards__0__weight="0.25"), seeded.alice)
    said = loaded(form.text)
    before = {**loaded(first.text), "steps": 77, "rewards": [{"scorer": "tone", "weight": 0.25}]}
    assert said == {**before, "sampling": {**before["sampling"], "temperature": 0.5}}


def test_the_yaml_that_is_changed_is_shown_by_the_fields_and_keeps_its_comments(lab, first, seeded):
    text = f"# why\n{first.text.replace('steps: 200', 'steps: 12')}"
    form = read(lab, posted(first, yaml=text), seeded.alice)
    assert form.text == text and form.plan.steps == 12
    assert next(knob for knob in form.knobs if knob.address == "steps").value == 12


def test_a_field_and_the_yaml_may_be_turned_at_once(lab, first, seeded):
    form = read(lab, posted(first, yaml=first.text.replace("steps: 200", "steps: 12"), seed="5"), seeded.alice)
    assert (form.plan.steps, form.plan.seed) == (12, 5)


def test_another_algorithm_begins_with_what_its_paper_recommends(lab, first, seeded):
    form = read(lab, posted(first, algorithm__name="gspo"), seeded.alice)
    assert loaded(form.text)["algorithm"] == {"name": "gspo"} and form.plan.algorithm.loss.name == "gspo"


def test_a_section_is_switched_on_and_off(lab, first, seeded):
    on = read(lab, posted(first, lora="on", lora__rank="4"), seeded.alice)
    assert on.plan.lora.rank == 4
    sent = posted(on)
    del sent["lora"]
    assert read(lab, sent, seeded.alice).plan.lora is None


def test_an_alert_that_is_unticked_is_off_and_can_be_put_on_again(lab, first, seeded):
    sent = posted(first)
    del sent["alerts.starvation"]
    off = read(lab, sent, seeded.alice)
    assert off.plan.alerts.starvation is None and off.plan.alerts.kl is not None
    assert loaded(off.text)["alerts"] == {"starvation": None}
    assert read(lab, posted(off, alerts__starvation="on"), seeded.alice).plan.alerts.starvation is not None


@pytest.mark.parametrize(("field", "value"), [("serve__settle_s", None), ("hacking__format_scorers", ())])
def test_a_field_that_something_stands_for_unsaid_can_be_emptied(lab, first, seeded, field, value):
    form = form_of(lab, {**loaded(first.text), "serve": {}}, seeded.alice)
    after = read(lab, posted(form, **{field: ""}), seeded.alice)
    section, name = field.split("__")
    assert getattr(getattr(RunConfig.model_validate(loaded(after.text)), section), name) == value


def test_a_field_that_needs_a_value_goes_back_to_what_it_begins_with(lab, first, seeded):
    assert read(lab, posted(first, sync_interval=""), seeded.alice).plan.sync_interval == 1


def test_a_scorers_own_options_survive_a_change_of_its_weight(lab, seeded):
    said = {**begun(presets()[0], lab), "rewards": [{"scorer": "length", "options": {"target": 20}}, {"scorer": "tone"}]}
    form = form_of(lab, said, seeded.alice)
    after = loaded(read(lab, posted(form, rewards__0__weight="0.5"), seeded.alice).text)["rewards"]
    assert after == [{"scorer": "length", "options": {"target": 20}, "weight": 0.5}, {"scorer": "tone"}]


@pytest.mark.parametrize(
    ("changes", "address", "words"),
    [
        ({"steps": "0"}, "steps", "plan 1 update or more"),
        ({"steps": "many"}, "steps", "valid integer"),
        ({"optimizer__learning_rate": "2"}, "optimizer.learning_rate", "less than or equal to 1"),
        ({"group_size": "1", "people__per_group": "0"}, "group_size", "compares the rollouts"),
        ({"policy": "huge"}, "policy", "no policy 'huge'"),
        ({"people__per_group": "30"}, "people.per_group", "more than group_size"),
        ({"pipeline": "- operator: nope"}, "pipeline", "nope"),
        ({"pipeline": "- {"}, "pipeline", "no valid YAML"),
        ({"yaml": "policy: [\n"}, "yaml", "no valid YAML"),
        ({"yaml": "a: &x 1\nb: *x\n"}, "yaml", "aliases are not allowed"),
        ({"yaml": "- a\n"}, "yaml", "must be a mapping"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_stays_as_typed(alice_client, lab, first, changes, address, words):
    answer = alice_client.post(reverse("run-new"), posted(first, **changes, act="start"))
    html = answer.content.decode()
    assert answer.status_code == 422 and not Run.objects.filter(slug="mine").exists()
    assert words in answer.context["form"].problems[address], answer.context["form"].problems
    assert escape(next(iter(changes.values())).splitlines()[0]) in html and 'value="mine"' in html


@pytest.mark.parametrize(
    "said",
    ["people: {rubric: 5}", "lora: 5", "rewards: tone", "selection: [1]", "algorithm: {name: [1]}", "tasksets: 1", "steps: {a: 1}"],
)
def test_a_yaml_of_the_wrong_shape_is_refused_in_words(alice_client, first, said):
    answer = alice_client.post(reverse("run-new-check"), posted(first, yaml=f"policy: tone\nsteps: 3\ntaskset: tone\n{said}"))
    assert answer.status_code == 200 and answer.context["form"].problems


def test_a_nul_that_yaml_spells_is_told_at_its_field(alice_client, first):
    said = first.text.replace("policy: tone", 'policy: "to\\0ne"').replace("scorer: tone", 'scorer: "a\\0"')
    answer = alice_client.post(reverse("run-new"), posted(first, yaml=said, act="create"))
    problems = answer.context["form"].problems
    assert answer.status_code == 422
    assert set(problems) == {"policy", "rewards"} and all("NUL" in words for words in problems.values())


def test_checking_writes_nothing(alice_client, first):
    before = Run.objects.count(), Topic.objects.count()
    assert "can run" in alice_client.post(reverse("run-new-check"), posted(first)).content.decode()
    assert (Run.objects.count(), Topic.objects.count()) == before


def test_a_run_is_made_and_put_on_record(alice_client, first, seeded):
    answer = alice_client.post(reverse("run-new"), posted(first, act="create"))
    run = Run.objects.get(slug="mine")
    assert answer["Location"] == reverse("run", args=["lab", "mine"])
    assert (run.state, run.owner, run.settings) == ("created", seeded.alice, first.plan)
    assert AuditEntry.objects.filter(act="run created", target="run lab/mine", by=seeded.alice).exists()


def test_a_run_may_be_started_at_once(alice_client, first):
    alice_client.post(reverse("run-new"), posted(first, act="start"))
    assert Run.objects.get(slug="mine").is_live


@pytest.mark.parametrize(("slug", "words"), [("", "give it a name"), ("a b", "letters, digits"), ("tone-7", "tone-2 is free")])
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


def test_a_difference_is_told_whatever_is_filled_in(seeded):
    before = seeded.run.settings
    after = parse({**before.model_dump(mode="json"), "seed": 3, "algorithm": "gspo", "lora": {}})
    found = {one.field: one.values for one in differences([before, after])}
    assert found["seed"] == ("0", "3") and found["algorithm.loss.name"] == ("ppo", "gspo")
    assert found["lora.rank"] == ("–", "16") and "steps" not in found
    assert differences([before, before]) == []


def test_time_is_taken_from_an_earlier_run_in_proportion(seeded):
    plan = seeded.run.settings
    known = estimate_of(plan, seeded.run.policy)
    twice = estimate_of(parse({**plan.model_dump(mode="json"), "group_size": 8}), seeded.run.policy)
    assert known.like == seeded.run and known.step_s == known.like_s
    assert twice.step_s == pytest.approx(2 * known.step_s) and known.total_s == pytest.approx(200 * known.step_s)


def test_lessons_are_learned_at_the_pace_of_the_trainer_alone_in_proportion_to_sequences(seeded):
    run = seeded.run
    Metric.objects.filter(run=run, name__in=("step_seconds", "wait_seconds", "starved_people")).delete()
    Metric.record(run, run.step, {"step_seconds": 10.0, "wait_seconds": 6.0, "starved_people": 5.0})
    said = {"policy": run.policy.slug, "taskset": "tone", "steps": 10, "algorithm": {"name": "dpo"}}
    lessons = estimate_of(parse({**said, "snapshot": {"source": "preferences", "rows": 32}}), run.policy)
    assert lessons.step_s == pytest.approx(4.0 * 2 * 32 / run.settings.rows_per_step) and not lessons.samples
    assert estimate_of(run.settings, run.policy).step_s == pytest.approx(5.0)  # sampling is part of it, people are not


def test_what_samples_takes_no_pace_from_what_does_not(seeded):
    run = seeded.run
    plan = run.settings
    lessons = {"steps": 9, "algorithm": {"name": "dpo"}, "snapshot": {"source": "preferences"}}
    lessons = parse({"policy": run.policy.slug, "taskset": "tone", **lessons})
    Run.objects.filter(pk=run.pk).update(config=lessons.model_dump(mode="json"))
    assert estimate_of(plan, run.policy).like is None


def test_an_evaluation_is_told_its_answers_and_their_time(alice_client, seeded):
    run = seeded.run
    Metric.objects.filter(run=run, name="explore_tokens_per_s").delete()
    Metric.record(run, run.step, {"explore_tokens_per_s": 100.0})
    said = {"policy": run.policy.slug, "taskset": "tone", "steps": 0, "group_size": 4, "evaluation": {"tasks": 5}}
    found = estimate_of(parse({**said, "rewards": [{"scorer": "tone"}], "sampling": {"max_tokens": 50}}), run.policy)
    assert (found.rows, found.tokens, found.like) == (20, 1_000, run) and found.total_s == pytest.approx(10.0)
    assert "No trainer is needed" in alice_client.get(reverse("run-new"), {"preset": "evaluation"}).content.decode()


def test_memory_is_sixteen_bytes_for_each_parameter_that_is_trained(seeded):
    policy, said = seeded.run.policy, seeded.run.settings.model_dump(mode="json")
    bare = estimate_of(parse({**said, "algorithm": {"name": "grpo", "kl": "none"}}), policy)
    assert bare.trainer == 16 * policy.parameters and bare.activations is None  # its folder is not here
    assert estimate_of(parse({**said, "algorithm": "grpo"}), policy).reference == 4 * policy.parameters
