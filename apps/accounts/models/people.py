"""Users, projects with their members, and groups of raters."""

from collections.abc import Collection, Iterable, Mapping

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import AbstractUser
from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.locking import lock_first, lock_one
from apps.accounts.models.audit import AuditEntry


class User(AbstractUser):
    """A person, or a named account in place of one.

    An imported rater is an author in an imported file who is no member; nobody can sign in as an
    imported rater. The user name is the project's and the author's name with a slash between them,
    which no other account can have.
    """

    is_simulated = models.BooleanField(
        default=False,
        help_text="A program that gives ratings; its ratings are labelled as simulated.",
    )
    imported_into = models.ForeignKey(
        "Project",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.PROTECT,
        related_name="imported_raters",
        help_text=(
            "Project whose imported files name this author. Empty for accounts that can log in."
        ),
    )
    rating_keys = models.JSONField(
        default=dict,
        blank=True,
        help_text="Custom keys of the rating page by action (apps.accounts.rating_keys).",
    )
    tour_step = models.PositiveSmallIntegerField(
        default=1,
        db_default=1,
        help_text="Next step of the tour of the demo run; 0 for no tour.",
    )

    password_changed_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="API tokens issued before the last change of the password are not accepted.",
    )

    def __str__(self) -> str:
        return self.username

    @property
    def author_name(self) -> str:
        """Return the name as in files: an imported rater's without the project's name."""
        return self.username.partition("/")[2] if self.imported_into_id else self.username

    def only_rates(self) -> bool:
        """Tell whether the person is a rater in all their projects, and administers nothing."""
        if self.is_superuser:
            return False
        return set(self.memberships.values_list("role", flat=True)) == {Membership.Role.RATER}

    def set_password(self, raw_password: str | None) -> None:
        """Set the password and revoke all API tokens issued until now.

        A person who changes a password may fear that others know it, and know the tokens. Django
        also calls this method to store a known password by a newer hash, but then saves the hash
        alone.
        """
        super().set_password(raw_password)
        self.password_changed_at = timezone.now()


class ProjectQuerySet(models.QuerySet["Project"]):
    def visible_to(self, user: User) -> "ProjectQuerySet":
        """Return the projects that the user belongs to; administrators see all.

        Nobody sees a project that is being deleted.
        """
        if not user.is_authenticated:
            return self.none()
        projects = self.kept()
        return projects if user.is_superuser else projects.filter(memberships__user=user)

    def run_by(self, user: User) -> "ProjectQuerySet":
        """Return the projects in which the user may start, steer and stop runs."""
        if not user.is_authenticated or user.is_superuser:
            return self.visible_to(user)
        return self.steered_by(user.pk)

    def steered_by(self, user: int) -> "ProjectQuerySet":
        """Return the projects in which this user (id) has a role that may steer runs."""
        # One filter call: the role must be this user's own, not that of anyone in the project.
        return self.kept().filter(
            memberships__user=user, memberships__role__in=Membership.MAY_STEER
        )

    def owned_by(self, user: User) -> "ProjectQuerySet":
        """Return the projects whose members the user may manage; administrators manage all."""
        if not user.is_authenticated or user.is_superuser:
            return self.visible_to(user)
        return self.kept().filter(memberships__user=user, memberships__role=Membership.Role.OWNER)

    def kept(self) -> "ProjectQuerySet":
        """Return the projects that are not being deleted."""
        return self.filter(deleting_since=None)

    def current(self) -> "ProjectQuerySet":
        """Return the projects that are not archived."""
        return self.filter(archived_at=None)


class Project(models.Model):
    """A tenant: every run, taskset and policy belongs to one project."""

    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When the project was archived. Lists hide it, and its runs cannot start.",
    )
    deleting_since = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When its deletion was requested. Its contents can no longer be seen or changed.",
    )

    objects = ProjectQuerySet.as_manager()

    def __str__(self) -> str:
        return self.title

    @classmethod
    @transaction.atomic
    def create(cls, title: str, slug: str, by: User) -> "Project":
        """Create a project that belongs to this person, and write the audit log.

        Raises IntegrityError when another project has this slug.
        """
        project = cls.objects.create(title=title, slug=slug)
        AuditEntry.record("project created", f"project {slug}", by, project, title=title)
        Membership(project=project, user=by, role=Membership.Role.OWNER).give(by)
        return project

    @transaction.atomic
    def rename(self, title: str, by: User) -> None:
        """Change the title and write the audit log; the slug stays, as addresses contain it."""
        changed = {"before": {"title": self.title}, "after": {"title": title}}
        self.title = title
        self.save(update_fields=["title"])
        AuditEntry.record("project renamed", f"project {self.slug}", by, self, **changed)

    def imported_raters_named(self, names: Mapping[str, bool]) -> dict[str, User]:
        """Return the imported raters by name, after creating missing ones.

        `names` maps each name to whether the rater is a simulated one.
        """
        usernames = {f"{self.slug}/{name}": name for name in names}
        raters = self.imported_raters.filter(username__in=usernames)
        existing = set(raters.values_list("username", flat=True))
        common = {"imported_into": self, "is_active": False, "password": make_password(None)}
        User.objects.bulk_create(
            [
                User(username=username, is_simulated=names[name], **common)
                for username, name in usernames.items()
                if username not in existing
            ],
            ignore_conflicts=True,  # another import may name them just now
        )
        return {usernames[rater.username]: rater for rater in raters.all()}

    def require_rater_name(self, name: str) -> None:
        """Raise ValueError for a name that no imported rater can have."""
        max_length = User._meta.get_field("username").max_length
        assert max_length is not None
        max_name_length = max_length - len(self.slug) - 1
        if len(name) > max_name_length:
            raise ValueError(f"has {len(name)} characters; a name has at most {max_name_length}")


class Membership(models.Model):
    class Role(models.TextChoices):
        OWNER = "owner"
        RESEARCHER = "researcher"
        RATER = "rater"
        VIEWER = "viewer"

    MAY_STEER = (Role.OWNER, Role.RESEARCHER)
    MAY_RATE = (Role.OWNER, Role.RESEARCHER, Role.RATER)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="one_role_per_project")
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"

    @transaction.atomic
    def give(self, by: User | None = None) -> None:
        """Save the role, new or changed, and write the audit log.

        Raises LastOwner when the project would have no owner left, and NoMember when somebody
        removed this member meanwhile.
        """
        stored = lock_first(Membership.objects.filter(pk=self.pk)) if self.pk else None
        if self.pk and stored is None:
            raise NoMember(f"{self.user} is no longer a member.")
        before = stored.role if stored else None
        if before == self.Role.OWNER and self.role != self.Role.OWNER:
            self._leave_ownership()
        self.save()
        changed = {"before": {"role": before}, "after": {"role": self.role}}
        AuditEntry.record(
            "role changed" if before else "role given",
            f"user {self.user}",
            by,
            self.project,
            **changed,
        )

    @transaction.atomic
    def take(self, by: User | None = None) -> None:
        """Remove the person from the project and write the audit log.

        Raises LastOwner if the project would have no owner left.
        """
        if self.role == self.Role.OWNER:
            self._leave_ownership()
        AuditEntry.record(
            "role taken", f"user {self.user}", by, self.project, before={"role": self.role}
        )
        for group in self.user.rater_groups.filter(project=self.project_id):
            group.members.remove(self.user)
        self.delete()

    def _leave_ownership(self) -> None:
        """Check that another owner remains, and revoke the open invitations of this one.

        Otherwise a former owner could return by a link of their own. The project's row is locked,
        so that two owners who leave at the same time do not both succeed.
        """
        lock_one(Project.objects.filter(pk=self.project_id))
        owners = Membership.objects.filter(project=self.project_id, role=self.Role.OWNER)
        if not owners.exclude(pk=self.pk).exists():
            raise LastOwner("A project needs an owner. Make another member an owner first.")
        self.project.invitations.filter(created_by=self.user_id, revoked_at=None).update(
            revoked_at=Now()
        )


class RaterGroup(models.Model):
    """A named group of a project's raters; runs and domains can be given to groups."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="rater_groups")
    name = models.CharField(max_length=60)
    members = models.ManyToManyField(User, related_name="rater_groups", blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="one_rater_group_per_name")
        ]

    def __str__(self) -> str:
        return self.name

    @transaction.atomic
    def choose(self, people: Iterable[User], among: Collection[int], by: User | None) -> None:
        """Make these people members, and of the users `among` (ids) nobody else.

        Members who were not among those offered stay.
        """
        lock_one(RaterGroup.objects.filter(pk=self.pk))
        self.fill([*self.members.exclude(pk__in=among), *people], by)

    @transaction.atomic
    def fill(self, people: Iterable[User], by: User | None) -> None:
        """Make these people the group's members, and write the audit log."""
        lock_one(RaterGroup.objects.filter(pk=self.pk))
        before = sorted(self.members.values_list("username", flat=True))
        self.members.set(people)
        after = sorted(self.members.values_list("username", flat=True))
        if before != after:
            self.note("rater group changed", by, before=before, after=after)

    def note(self, action: str, by: User | None, **details: object) -> None:
        """Write an action on this group to the audit log."""
        AuditEntry.record(action, f"rater group {self.name}", by, self.project, **details)


class NoMember(Exception):
    """Raised for a change of a membership that somebody has removed."""


class LastOwner(Exception):
    """Raised for a change that would leave a project without an owner."""
