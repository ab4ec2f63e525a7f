"""Environments that policies act in, and the episodes that rollouts play in them.

How the pieces meet. A run whose configuration names an environment plays one Episode for each
attempt at a rollout. Both sides communicate by rows alone, so that every player of an episode (our
own process, a REST client, a socket) calls the same functions:

    the explorer               Episode.state            the environment's player
    opening.open_episodes(…)   → waiting | environment  → opening.take(…) (a client takes it),
                                                          admitting.admit(…) (services)
                                 environment            → playing.observe(episode, 0, observation)
    news.news_of(…) reads it   ← policy
    playing.act([Action(…)])   → environment            → playing.observe(episode, 1, observation,
                                                          reward=…, done=…)
    …
    closing.settle(…)          → done | failed |        ← observe(done=True), closing.end(…),
                                 abandoned                closing.fail(…)

Turn n is an observation, the policy's action on it and that action's reward. The reward comes with
observation n + 1, or separately with `playing.record_turn_reward`. An observation with `done` has
no action: nothing follows it. Every action is answered, also one that was cut by the run's length
limit (`Rollout.stop_reason` is then "length") and the last one that the turn limit allows.

When the rollout is written, `closing.settle_episodes` records its Reward in the same transaction:
source environment, scorer = the environment's name, value = the sum of its turns' rewards; NULL
with the reason when the episode failed. The rollout of a failed episode is FAILED and has no
tokens, as after any infrastructure failure, and the run's group rule applies. Where rewards may
come after the end (`reward_s`), the Reward waits for them, and the group with it (`judging`).
Rewards after that are kept as late (`EpisodeTurn.late_reward`) and not trained on.

An episode belongs to one attempt: when another explorer takes over the group (another `fence`), the
rollout begins again in an episode of its own, and the old one is abandoned with the reason; its
player receives an error at the next call.

Environments that call us use `api` and `episodes_api`, or a socket, `episode_socket`
(docs/environments.md); people play them on the episode's page. All of these go through `telling`.
`access` checks permissions, `waiting` delivers the policy's action without a thread per waiting
client, and `writing` streams its text.
"""
