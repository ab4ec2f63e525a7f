"""What a policy acts in: environments, and the episodes that rollouts play in them.

How the pieces meet. A run whose configuration names an environment plays one Episode for each attempt at a rollout. Both
sides speak by rows alone, so that whoever plays an episode (our own process, a REST client, a socket) calls the same functions:

    the explorer                     the row Episode.state        whoever plays the environment
    opening.open_episodes(…)      →  waiting | environment        →  opening.take(…) (push), admitting.admit(…) (services)
                                     environment                  →  playing.observe(episode, 0, observation)
    news.news_of(…) reads it      ←  policy
    playing.act([Action(…)])      →  environment                  →  playing.observe(episode, 1, observation, reward=…, done=…)
    …
    closing.settle(…)             →  done | failed | abandoned    ←  observe(done=True), closing.end(…), closing.fail(…)

Turn n is an observation, the policy's action on it and that action's reward. The reward comes with observation n + 1, or by
itself with `playing.reward`. An observation with `done` has no action: nothing follows it. Every action is answered, also one
that was cut by the run's length (`Rollout.stop_reason` is then "length") and the last one that the turn limit allows.

When the rollout is written, `closing.settle` records its Reward in the same transaction: source environment, scorer = the
environment's name, value = the sum of what its turns earned; NULL with the reason when the episode failed. The rollout of a
failed episode is FAILED and has no tokens, as after any failure of machinery, and the run's group rule applies. Where rewards may
come after the end (`reward_s`), that waits for them, and the group with it (`judging`). What comes after that is kept as late
(`EpisodeTurn.late_reward`) and not trained on.

An episode belongs to one attempt: when another explorer takes the group over (another `fence`), the rollout begins again
in an episode of its own, and the old one is abandoned, with the reason; who plays it is told at the next call.

Environments that call us do so in `api` and `episodes_api`, or on a socket, `episode_socket` (docs/environments.md); people play
them from the episode's page. What all of them say goes through `telling`. `access` says who may, `waiting` tells them of the
policy's action without a thread for each, and `writing` what it says while it is written.
"""
