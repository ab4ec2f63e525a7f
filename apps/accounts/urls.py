"""Signing in and out, changing a password, and second factors. Nothing else of allauth has an address.

Accounts are made by administrators, so the sign-up, e-mail and reset pages that allauth's own views link to
lead to the login page.
"""

from allauth.account import views
from django.urls import include, path
from django.views.generic import RedirectView

to_login = RedirectView.as_view(pattern_name="account_login")

urlpatterns = [
    path("login/", views.login, name="account_login"),
    path("logout/", views.logout, name="account_logout"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("reauthenticate/", views.reauthenticate, name="account_reauthenticate"),
    path("password/change/", views.password_change, name="account_change_password"),
    path("2fa/", include("allauth.mfa.urls")),
    path("signup/", to_login, name="account_signup"),
    path("email/", to_login, name="account_email"),
]
