"""The page that an invitation's link opens: join with an account, or create one."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.forms import BaseUserCreationForm
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from apps.accounts.models import Invitation, InvitationEnded, Membership, User
from apps.accounts.requests import SignedInRequest, is_signed_in

ENDED = "dashboard/invitation_ended.html"


class AccountForm(BaseUserCreationForm):
    """A new account: user name and password, which is typed twice."""

    class Meta:
        model = User
        fields = ("username",)

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.fields["username"].widget.attrs.update(autocomplete="username", autofocus=True)


@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Everybody with the link. A GET changes nothing: programs that preview links open them too."""
    presented = Invitation.objects.presented(secret)
    if presented is None:
        return render(request, ENDED, status=404)
    if request.method == "POST":
        if is_signed_in(request):
            return _join(request, presented)
        return _create_account(request, presented)
    return _page(request, presented, AccountForm())


def _create_account(request: HttpRequest, invitation: Invitation) -> HttpResponse:
    """Create an account, join and sign in; neither is done if the invitation has just ended."""
    form = AccountForm(request.POST)
    if not form.is_valid():
        return _page(request, invitation, form, status=422)
    try:
        with transaction.atomic():
            user = form.save(commit=False)
            # Who opened the link that an e-mail carried reads the mail of its address.
            user.email = getattr(getattr(invitation, "mail", None), "address", "")
            user.save()
            invitation.accept(user)
    except InvitationEnded:
        return render(request, ENDED, status=404)
    except IntegrityError:  # somebody else took the name since the form was checked
        form.add_error("username", "A user with that username already exists.")
        return _page(request, invitation, form, status=422)
    login(request, user, backend=settings.AUTHENTICATION_BACKENDS[-1])
    return _welcome(request, invitation, invitation.role)


def _join(request: SignedInRequest, invitation: Invitation) -> HttpResponse:
    try:
        is_new = invitation.accept(request.user)
    except InvitationEnded:
        return render(request, ENDED, status=404)
    role = Membership.objects.get(project=invitation.project, user=request.user).role
    if not is_new:
        messages.info(request, f"You are already a member of {invitation.project.title}.")
        return redirect(_first_page(role))
    return _welcome(request, invitation, role)


def _welcome(request: HttpRequest, invitation: Invitation, role: str) -> HttpResponse:
    name = Membership.Role(role).label.lower()
    messages.success(request, f"Welcome to {invitation.project.title}. Your role is {name}.")
    return redirect(_first_page(role))


def _first_page(role: str) -> str:
    """Return the name of the page on which a person with this role begins."""
    return "rate" if role == Membership.Role.RATER else "home"


def _page(
    request: HttpRequest, invitation: Invitation, form: AccountForm, status: int = 200
) -> HttpResponse:
    is_member = (
        request.user.is_authenticated
        and Membership.objects.filter(project=invitation.project, user=request.user).exists()
    )
    context = {"invitation": invitation, "form": form, "is_member": is_member}
    return render(request, "dashboard/invitation.html", context, status=status)
