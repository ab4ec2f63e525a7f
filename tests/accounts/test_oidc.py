"""Sign-in by OpenID Connect against a real provider on loopback."""

from datetime import timedelta
from urllib.parse import parse_qs, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import pytest
from allauth.socialaccount.models import SocialAccount
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import reverse

from apps.accounts.models import AuditEntry, Invitation, Membership, User
from rftweb import environment
from rftweb.settings import oidc_app
from tests.accounts.oidc_provider import CLIENT, SECRET, serving

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/oidc/oidc/login/"
ERIN = {"sub": "1234", "preferred_username": "erin", "name": "Erin Ek"}


@pytest.fixture
def provider(settings):
    with serving() as found:
        settings.OIDC_ISSUER = found.address
        settings.OIDC_NAME = "the house"
        settings.OIDC_ROLE = ""
        settings.SOCIALACCOUNT_PROVIDERS = oidc_app(found.address, CLIENT, SECRET, "the house")
        found.person = dict(ERIN)
        yield found


class NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def at_provider(address: str) -> str:
    """Open the provider's page as a browser does; return where it leads back to."""
    try:
        build_opener(NoRedirect).open(address, timeout=10)
    except OSError as redirected:  # urllib raises this for status 302
        return redirected.headers["Location"].partition("testserver")[2]
    raise AssertionError("the provider does not lead back")


def sign_in(client: Client, **form: str):
    """Go to the provider and come back, as a browser does."""
    gone = client.post(LOGIN, form)
    assert gone.status_code == 302, gone.content
    return client.get(at_provider(gone.url))


def account(client: Client) -> User | None:
    return client.get(reverse("settings")).wsgi_request.user


def shown(client: Client) -> str:
    return client.get(reverse("account_login")).content.decode()


def test_new_user_gets_an_account_without_a_project(provider):
    client = Client()
    assert sign_in(client).url == "/"
    erin = User.objects.get(username="erin")
    assert account(client) == erin and not erin.has_usable_password()
    assert not erin.memberships.exists() and not erin.is_staff
    assert SocialAccount.objects.get(user=erin).uid == "1234"
    assert AuditEntry.objects.get(action="account created").details == {"provider": "the house"}
    assert client.get(reverse("runs")).status_code == 200
    assert client.get("/runs/new/").status_code == 403


def test_returning_user_keeps_the_account_after_a_change_of_name(provider):
    sign_in(Client())
    provider.person = {"sub": "1234", "preferred_username": "erin-new"}
    client = Client()
    sign_in(client)
    assert account(client) == User.objects.get(username="erin")
    assert User.objects.filter(username__startswith="erin").count() == 1


def test_existing_account_is_not_matched_by_name_or_email(provider, alice):
    alice.email = "alice@example.org"
    alice.save()
    provider.person = {
        "sub": "666",
        "preferred_username": "alice",
        "email": "alice@example.org",
        "email_verified": True,
    }
    client = Client()
    sign_in(client)
    newcomer = account(client)
    assert newcomer != alice and newcomer.username != "alice"
    assert not newcomer.memberships.exists()


@pytest.mark.parametrize(
    ("is_verified", "email"), [(True, "erin@example.org"), (False, ""), ("true", "")]
)
def test_only_a_verified_email_address_is_stored(provider, is_verified, email):
    provider.person |= {"email": "erin@example.org", "email_verified": is_verified}
    sign_in(Client())
    assert User.objects.get(username="erin").email == email


def test_new_user_gets_the_configured_default_role_once(provider, project, settings):
    settings.OIDC_ROLE = "lab:rater"
    sign_in(Client())
    erin = User.objects.get(username="erin")
    assert [(one.project, one.role) for one in erin.memberships.all()] == [(project, "rater")]
    Membership.objects.all().delete()
    sign_in(Client())  # a removed membership is not given again
    assert not erin.memberships.exists()


def test_default_role_in_a_missing_project_gives_no_membership(provider, settings):
    settings.OIDC_ROLE = "gone:rater"
    sign_in(Client())
    assert not User.objects.get(username="erin").memberships.exists()


def test_an_invited_person_signs_in_and_joins(provider, project, alice):
    _, secret = Invitation.create(project, "rater", timedelta(days=1), alice)
    link = reverse("invitation", args=[secret])
    client = Client()
    page = client.get(link).content.decode()
    assert "Continue with the house" in page and f'name="next" value="{link}"' in page
    assert sign_in(client, next=link).url == link
    client.post(link)
    assert Membership.objects.get(user__username="erin").role == "rater"


def test_redirect_after_sign_in_stays_on_this_site(provider):
    assert sign_in(Client(), next="https://evil.example/").url == "/"


@pytest.mark.parametrize(
    "told", [{"aud": "another client"}, {"iss": "https://evil.example"}, {"exp": 1}, {"sub": "9"}]
)
def test_id_token_with_wrong_claims_is_refused(provider, told):
    provider.told = told
    client = Client()
    assert sign_in(client).url == reverse("account_login")
    assert "Signing in with the house did not work" in shown(client)
    assert not User.objects.exists()


def test_id_token_signed_with_another_key_is_refused(provider):
    provider.signing_key = rsa.generate_private_key(65537, 2048)
    assert sign_in(Client()).url == reverse("account_login")
    assert not User.objects.exists()


def test_callback_without_a_started_sign_in_is_refused(provider):
    """A link with another user's code would sign the visitor in as that user."""
    other = Client().post(LOGIN)
    answer = Client().get(at_provider(other.url))
    assert answer.url == reverse("account_login") and not User.objects.exists()


def test_cancelled_sign_in_shows_a_message(provider):
    client = Client()
    state = parse_qs(urlsplit(client.post(LOGIN).url).query)["state"][0]
    answer = client.get(f"{LOGIN}callback/?error=access_denied&state={state}")
    assert answer.url == reverse("account_login")
    assert "Signing in with the house was cancelled." in shown(client)


def test_page_reports_an_unreachable_provider_and_keeps_the_password_form(provider):
    provider.is_broken = True
    client = Client()
    assert client.post(LOGIN).url == reverse("account_login")
    text = shown(client)
    assert "did not work" in text and 'name="password"' in text


def test_inactive_user_cannot_sign_in(provider):
    sign_in(Client())
    User.objects.update(is_active=False)
    client = Client()
    sign_in(client)
    assert account(client).is_anonymous


def test_sign_in_starts_with_a_csrf_protected_post(provider):
    assert Client().get(LOGIN).status_code == 405
    assert Client(enforce_csrf_checks=True).post(LOGIN).status_code == 403


def test_sign_in_without_a_provider_is_not_offered(settings):
    settings.OIDC_ISSUER = ""
    assert "Continue with" not in shown(Client())
    assert Client().post(LOGIN).status_code == 404
    assert Client().get(f"{LOGIN}callback/?code=1&state=2").status_code == 404


@pytest.mark.parametrize("value", ["support", "support:owner", "a b:rater"])
def test_invalid_default_role_is_refused_at_startup(monkeypatch, value):
    monkeypatch.setenv("RFTWEB_OIDC_ROLE", value)
    with pytest.raises(ImproperlyConfigured, match="it reads like support:rater"):
        environment.project_role("RFTWEB_OIDC_ROLE")


def test_allowed_origins_contain_only_the_provider():
    assert environment.origins("https://id.example.org/realms/one") == ["https://id.example.org"]
    assert environment.origins("") == []
