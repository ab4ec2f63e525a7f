"""URLs of the pages on which people judge an arena's pairs."""

from django.urls import path

from apps.evaluation import views

urlpatterns = [
    path("<int:pk>/", views.show_arena_page, name="arena-judge"),
    path("<int:pk>/next/", views.next_shown, name="arena-next"),
    path("<int:pk>/vote/", views.vote, name="arena-vote"),
    path("<int:pk>/undo/", views.withdraw_vote, name="arena-undo"),
]
