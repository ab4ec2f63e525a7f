"""Signing in and out, by OpenID Connect too, changing or resetting a password, second factors.

Nothing else of allauth has an address.

Accounts are made by administrators or by invitation, so the sign-up and e-mail pages that allauth's
own views link to lead to the login page.
"""

from allauth.account import views
from django.urls import include, path
from django.views.generic import RedirectView

from apps.accounts import oidc, password_resets

to_login = RedirectView.as_view(pattern_name="account_login")

urlpatterns = [
    path("login/", views.login, name="account_login"),
    path("logout/", views.logout, name="account_logout"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("reauthenticate/", views.reauthenticate, name="account_reauthenticate"),
    path("password/change/", views.password_change, name="account_change_password"),
    path("password/reset/", password_resets.request_password_reset, name="account_reset_password"),
    path("password/reset/done/", views.password_reset_done, name="account_reset_password_done"),
    path(
        "password/reset/key/<base36:uidb36>-<str:key>/",
        views.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path(
        "password/reset/key/done/",
        views.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    path("2fa/", include("allauth.mfa.urls")),
    path("oidc/<slug:provider_id>/login/", oidc.login, name="openid_connect_login"),
    path("oidc/<slug:provider_id>/login/callback/", oidc.callback, name="openid_connect_callback"),
    path("signup/", to_login, name="account_signup"),
    path("email/", to_login, name="account_email"),
    path("social/signup/", to_login, name="socialaccount_signup"),
    path("social/", to_login, name="socialaccount_connections"),
]
