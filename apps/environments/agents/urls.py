"""URLs for OpenAI's clients under /v1/, with the session calls of AReaL beside them.

Clients write no slash at the end.
"""

from django.urls import path, re_path

from apps.environments.agents import api

urlpatterns = [
    path("chat/completions", api.ChatCompletions.as_view(), name="agent-chat"),
    path("completions", api.Completions.as_view(), name="agent-completions"),
    path("models", api.Models.as_view(), name="agent-models"),
    path("models/<str:model>", api.OneModel.as_view(), name="agent-model"),
    path("rl/start_session", api.StartSession.as_view(), name="agent-start"),
    path("rl/set_reward", api.SetReward.as_view(), name="agent-reward"),
    path("rl/end_session", api.EndSession.as_view(), name="agent-end"),
    path("rl/export_trajectories", api.Export.as_view(), name="agent-export"),
    path("feedback", api.FeedbackView.as_view(), name="agent-feedback"),
    re_path("", api.Nowhere.as_view(), name="agent-nowhere"),
]
