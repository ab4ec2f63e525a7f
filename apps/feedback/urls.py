"""Where people judge."""

from django.urls import path

from apps.feedback import views

urlpatterns = [
    path("", views.desk, name="rate"),
    path("<int:rollout>/", views.rate, name="rate-rollout"),
]
