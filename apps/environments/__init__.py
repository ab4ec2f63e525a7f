"""Environments that policies act in, and the episodes that rollouts play in them.

A run whose configuration names an environment plays one Episode for each attempt at a rollout. Both
sides communicate only through rows, so every player of an episode (our own process, a REST client,
a socket) calls the same functions:

    the explorer               Episode.state            the environment's player
    episode_opening            → waiting | environment  → assign_episode(…) (a client takes it),
      .open_episodes(…)                                   admitting.admit_episodes(…) (services)
                                 environment            → playing.observe(episode, 0, observation)
    episode_changes            ← policy
      .list_news(…) reads it
    playing.record_actions(…)  → environment            → playing.observe(episode, 1, observation,
                                                          reward=…, done=…)
    …
    closing                    → done | failed |        ← observe(done=True),
      .settle_episodes(…)        abandoned                closing.end_episode(…) or fail_episode(…)

Turn n is an observation, the policy's action on it and that action's reward. The reward comes with
observation n + 1, or separately with `playing.record_turn_reward`. An observation with `done` is
the last one and has no action. Every action is answered, also one that was cut by the run's length
limit (`Rollout.stop_reason` is then "length") and the last one that the turn limit allows.

When the rollout is written, `closing.settle_episodes` records its Reward in the same transaction:
source environment, scorer = the environment's name, value = the sum of its turns' rewards. If the
episode failed, the value is NULL with the reason; its rollout is FAILED and has no tokens, as after
any infrastructure failure, and the run's group rule applies. If rewards may come after the end
(`reward_s`), the Reward waits for them, and the group with it (`judging`). Rewards after that are
kept as late (`EpisodeTurn.late_reward`) and not trained on.

An episode belongs to one attempt. When another explorer takes over the group (another `fence`), the
rollout begins again in an episode of its own, and the old episode is abandoned with the reason; its
player gets an error at the next call.

Environments that call us use `api` and `episodes_api`, or a socket, `episode_socket`
(docs/environments.md); people play them on the episode's page. All of these use `turn_messages`.
`access` checks permissions, `action_waiters` delivers the policy's action without a thread per
waiting client, and `turn_text` streams its text.
"""
