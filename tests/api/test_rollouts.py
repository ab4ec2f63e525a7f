"""Rollouts over REST."""

import pytest
from django.db.models.functions import Now

from apps.rollouts.models import Group, Rollout, RolloutPayload

pytestmark = pytest.mark.django_db


def test_rollout_contains_prompt_and_tokens_but_not_the_reference_answer(
    program, alice, run, finish
):
    [group] = finish(run, texts=["12345"])
    rollout = group.rollouts.first()
    answer = program(alice).get(f"rollouts/{rollout.pk}/")
    shown = answer.json()
    assert shown["tokens"] == {
        "prompt_ids": [1, 2, 3],
        "completion_ids": list(b"12345"),
        "logprobs": [-0.5] * 5,
        "action_mask": [1] * 5,
        "segments": [{"start": 0, "version": 0}],
    }
    assert shown["prompt"] == group.task.prompt and b"sorted" not in answer.content


def test_blind_rater_sees_neither_versions_nor_logprobs(program, bob, run, finish):
    [group] = finish(run, texts=["12345"])
    shown = program(bob).get(f"rollouts/{group.rollouts.first().pk}/").json()
    assert (shown["tokens"]["logprobs"], shown["tokens"]["segments"]) == (None, None)
    assert (shown["first_version"], shown["last_version"]) == (None, None)
    assert shown["tokens"]["completion_ids"] == list(b"12345")
    assert {row["last_version"] for row in program(bob).get("rollouts/").json()["items"]} == {None}


def test_blind_rater_cannot_tell_the_anchors_of_the_base_weights_apart(
    program, alice, bob, run, finish
):
    [group] = finish(run, texts=["12345", "54321"])
    anchor = group.rollouts.first()
    Rollout.objects.filter(pk=anchor.pk).update(origin=Rollout.Origin.SYNTHETIC)
    assert program(bob).get(f"rollouts/{anchor.pk}/").json()["origin"] is None
    assert {row["origin"] for row in program(bob).get("rollouts/").json()["items"]} == {None}
    for person, expected in ((bob, []), (alice, [anchor.pk])):
        listed = program(person).get("rollouts/", origin="synthetic").json()["items"]
        assert [row["id"] for row in listed] == expected


def test_sampling_or_failed_rollout_has_no_tokens(program, bob, run):
    Group.open(run, "test", 60, 1, version=0)
    sampling, failed = Rollout.objects.filter(run=run)
    Rollout.objects.filter(pk=failed.pk).update(state=Rollout.State.FAILED)
    assert [
        program(bob).get(f"rollouts/{pk}/").json()["tokens"] for pk in (sampling.pk, failed.pk)
    ] == [None, None]


def test_a_list_is_filtered_by_run_group_and_state(program, bob, new_run, finish):
    here = new_run()
    there = new_run()
    [group], [other] = finish(here), finish(there)
    Group.open(here, "test", 60, 1, version=0)
    caller = program(bob)

    def ids(**query: object) -> set[int]:
        return {item["id"] for item in caller.get("rollouts/", **query).json()["items"]}

    mine = set(group.rollouts.values_list("pk", flat=True))
    assert ids(run=here.pk, state="finished") == ids(group=group.pk) == mine
    assert ids(run=there.pk) == set(other.rollouts.values_list("pk", flat=True))
    assert ids(state="sampling") == set(
        Rollout.objects.filter(state="sampling").values_list("pk", flat=True)
    )


def test_anchors_are_listed_only_on_request(program, alice, run, finish):
    [group] = finish(run)
    sampled = set(group.rollouts.values_list("pk", flat=True))
    anchor = Rollout.objects.create(
        run=run,
        group=group,
        origin="synthetic",
        sample_index=0,
        state="finished",
        text="of the base",
    )
    caller = program(alice)

    def rows(**query: object) -> dict[int, str]:
        return {
            item["id"]: item["origin"] for item in caller.get("rollouts/", **query).json()["items"]
        }

    assert (
        rows() == rows(group=group.pk) == rows(origin="policy") == dict.fromkeys(sampled, "policy")
    )
    assert rows(origin="synthetic") == {anchor.pk: "synthetic"} and rows(origin="expert") == {}
    assert "origin" in caller.get("rollouts/", origin="base").json()["errors"]


def test_list_continues_after_a_given_id(program, bob, run, finish):
    [group] = finish(run)
    first, second = sorted(group.rollouts.values_list("pk", flat=True))
    assert [item["id"] for item in program(bob).get("rollouts/", after=first).json()["items"]] == [
        second
    ]


def test_rollouts_of_other_projects_are_hidden(program, carol, run, finish):
    [group] = finish(run)
    caller = program(carol)
    assert caller.get("rollouts/").json() == {"items": [], "more": False}
    assert caller.get("rollouts/", run=run.pk).status_code == 404
    assert caller.get(f"rollouts/{group.rollouts.first().pk}/").status_code == 404


def test_list_needs_at_most_5_queries(program, bob, run, finish, django_assert_max_num_queries):
    finish(run, groups=2)
    caller = program(bob)
    with django_assert_max_num_queries(5):
        assert len(caller.get("rollouts/").json()["items"]) == 4


def test_control_characters_in_model_output_are_sent_as_valid_json(program, bob, run, finish):
    [group] = finish(run, texts=["a\x00b\u2028<script>\u202e"])
    assert (
        program(bob).get(f"rollouts/{group.rollouts.first().pk}/").json()["text"]
        == "a\u2400b\u2028<script>\u202e"
    )


def test_rollout_with_released_arrays_shows_the_time_and_keeps_its_text(
    program, alice, run, finish
):
    [group] = finish(run, texts=["12345"])
    rollout = group.rollouts.first()
    RolloutPayload.objects.filter(rollout=rollout).delete()
    Rollout.objects.filter(pk=rollout.pk).update(arrays_released_at=Now())
    shown = program(alice).get(f"rollouts/{rollout.pk}/").json()
    assert (shown["tokens"], shown["text"], shown["completion_tokens"]) == (
        None,
        "12345",
        5,
    ) and shown["arrays_released_at"]
