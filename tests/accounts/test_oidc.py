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
    except OSError as redirected:  # urllib's error for an answer 302
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


def test_a_person_who_is_new_gets_an_account_that_belongs_to_no_project(provider):
    client = Client()
    assert sign_in(client).url == "/"
    erin = User.objects.get(username="erin")
    assert account(client) == erin and not erin.has_usable_password()
    assert not erin.memberships.exists() and not erin.is_staff
    assert SocialAccount.objects.get(user=erin).uid == "1234"
    assert AuditEntry.objects.get(action="account created").details == {"provider": "the house"}
    assert client.get(reverse("runs")).status_code == 200
    assert client.get("/runs/new/").status_code == 403


def test_who_comes_again_is_the_same_person_also_under_another_name(provider):
    sign_in(Client())
    provider.person = {"sub": "1234", "preferred_username": "erin-new"}
    client = Client()
    sign_in(client)
    assert account(client) == User.objects.get(username="erin")
    assert User.objects.filter(username__startswith="erin").count() == 1


def test_an_account_is_never_found_by_name_or_address(provider, alice):
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
def test_only_a_verified_address_is_kept(provider, is_verified, email):
    provider.person |= {"email": "erin@example.org", "email_verified": is_verified}
    sign_in(Client())
    assert User.objects.get(username="erin").email == email


def test_a_new_person_gets_the_default_role_where_one_is_set(provider, project, settings):
    settings.OIDC_ROLE = "lab:rater"
    sign_in(Client())
    erin = User.objects.get(username="erin")
    assert [(one.project, one.role) for one in erin.memberships.all()] == [(project, "rater")]
    Membership.objects.all().delete()
    sign_in(Client())  # what was taken away does not come back
    assert not erin.memberships.exists()


def test_a_default_role_in_a_project_that_is_gone_gives_nothing(provider, settings):
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


def test_the_next_address_stays_on_this_site(provider):
    assert sign_in(Client(), next="https://evil.example/").url == "/"


@pytest.mark.parametrize(
    "told", [{"aud": "another client"}, {"iss": "https://evil.example"}, {"exp": 1}, {"sub": "9"}]
)
def test_an_id_token_that_is_not_about_this_sign_in_is_refused(provider, told):
    provider.told = told
    client = Client()
    assert sign_in(client).url == reverse("account_login")
    assert "Signing in with the house did not work" in shown(client)
    assert not User.objects.exists()


def test_an_id_token_of_another_signer_is_refused(provider):
    provider.signing_key = rsa.generate_private_key(65537, 2048)
    assert sign_in(Client()).url == reverse("account_login")
    assert not User.objects.exists()


def test_an_answer_that_nobody_asked_for_is_refused(provider):
    """A link with somebody else's code, which would sign the reader in as that person."""
    other = Client().post(LOGIN)
    answer = Client().get(at_provider(other.url))
    assert answer.url == reverse("account_login") and not User.objects.exists()


def test_who_cancels_is_told_so(provider):
    client = Client()
    state = parse_qs(urlsplit(client.post(LOGIN).url).query)["state"][0]
    answer = client.get(f"{LOGIN}callback/?error=access_denied&state={state}")
    assert answer.url == reverse("account_login")
    assert "Signing in with the house was cancelled." in shown(client)


def test_a_provider_that_is_away_is_said_and_the_password_still_works(provider):
    provider.is_broken = True
    client = Client()
    assert client.post(LOGIN).url == reverse("account_login")
    text = shown(client)
    assert "did not work" in text and 'name="password"' in text


def test_an_inactive_person_stays_out(provider):
    sign_in(Client())
    User.objects.update(is_active=False)
    client = Client()
    sign_in(client)
    assert account(client).is_anonymous


def test_signing_in_begins_with_a_form_of_ours_and_never_with_a_link(provider):
    assert Client().get(LOGIN).status_code == 405
    assert Client(enforce_csrf_checks=True).post(LOGIN).status_code == 403


def test_without_a_provider_nothing_is_offered(settings):
    settings.OIDC_ISSUER = ""
    assert "Continue with" not in shown(Client())
    assert Client().post(LOGIN).status_code == 404
    assert Client().get(f"{LOGIN}callback/?code=1&state=2").status_code == 404


@pytest.mark.parametrize("value", ["support", "support:owner", "a b:rater"])
def test_a_wrong_default_role_is_refused_when_the_installation_starts(monkeypatch, value):
    monkeypatch.setenv("RFTWEB_OIDC_ROLE", value)
    with pytest.raises(ImproperlyConfigured, match="it reads like support:rater"):
        environment.project_role("RFTWEB_OIDC_ROLE")


def test_the_pages_may_lead_to_the_provider_alone():
    assert environment.origins("https://id.example.org/realms/one") == ["https://id.example.org"]
    assert environment.origins("") == []
