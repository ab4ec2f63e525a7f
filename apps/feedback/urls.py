"""URLs of the rating pages."""

from django.urls import path

from apps.feedback.views import page, slots, stars

urlpatterns = [
    path("", page.show_rating_page, name="rate"),
    path("next/", page.next_items, name="rate-next"),
    path("end/", page.queue_end, name="rate-end"),
    path("guidelines/<int:run>/", page.guidelines, name="rate-guidelines"),
    path("forms/<slug:form>/form.js", page.form_script, name="rating-form-script"),
    path("undo/", slots.undo_last, name="rate-undo"),
    path("slots/<int:slot>/", slots.save_decision, name="rate-slot"),
    path("slots/<int:slot>/keep/", slots.keep_slot, name="rate-slot-keep"),
    path("slots/<int:slot>/release/", slots.release_slot, name="rate-slot-release"),
    path("slots/<int:slot>/skip/", slots.skip_slot, name="rate-slot-skip"),
    path("slots/<int:slot>/flag/", slots.flag_reply, name="rate-slot-flag"),
    path("slots/<int:slot>/rewrite/", slots.rewrite_slot, name="rate-slot-rewrite"),
    path("<int:rollout>/", stars.save_stars, name="rate-rollout"),
]
