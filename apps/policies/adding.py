"""Rules for adding a model: what may be asked for, and the import that does it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import QuerySet
from django.utils.text import slugify

from apps.accounts.contained_paths import UnsafePath
from apps.accounts.locking import lock_one
from apps.accounts.models import AuditEntry, Project, User
from apps.policies.chat_presets import PRESETS, TEMPLATE_LIMIT
from apps.policies.models import ImportOver, PolicyImport
from apps.policies.named_models import CATALOGUE
from apps.policies.server_models import server_path
from apps.policies.uploads import WEIGHTS, BadUpload, require_uploadable

MAX_SLUG_LENGTH = 50
MAX_TITLE_LENGTH = 200
MAX_OPEN = 5  # imports of one project that are uploading, waiting or running
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}"
HUB_ID = re.compile(rf"{_PART}/{_PART}")
REVISION = re.compile(r"[\w-](?:[\w.-]|/(?![./])){0,99}")
SLUG = re.compile(r"[-a-zA-Z0-9_]{1,50}")
OWN = "own"  # in place of a template's name: the user has written one
Kind = PolicyImport.Kind


class NotAddable(ValueError):
    """Raised for a request that cannot become an import; `problems` maps fields to sentences."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__(" ".join(problems.values()))
        self.problems = dict(problems)


@dataclass(frozen=True)
class NewModel:
    """A model that somebody wants to add.

    `template`: a preset's name, OWN for `template_text`, or empty for the model's own. `files`: for
    an upload, the bytes of each file by its name.
    """

    kind: str
    source: str = ""
    title: str = ""
    slug: str = ""
    revision: str = ""
    template: str = ""
    template_text: str = ""
    files: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the title, or the last part of where the model comes from.

        Empty for uploaded safetensors, whose file names do not say which model they are.
        """
        last = self.origin.rstrip("/").rpartition("/")[2]
        last = "" if last.endswith(".safetensors") else last.removesuffix(".gguf")
        return self.title.strip() or last or self.slug

    @property
    def origin(self) -> str:
        """Return the source; of an upload, the first file of weights."""
        if self.kind != Kind.UPLOAD:
            return self.source.strip()
        return next((name for name in sorted(self.files) if name.endswith(WEIGHTS)), "")


def create_policy_import(project: Project, by: User | None, new_model: NewModel) -> PolicyImport:
    """Return a new import, which a worker begins at once, or after its files have arrived.

    Raises NotAddable.
    """
    slug = new_model.slug.strip() or slugify(new_model.name.replace(".", "-"))[:MAX_SLUG_LENGTH]
    problems = {**_problems_of_source(new_model), **_problems_of_template(new_model)}
    if len(new_model.name) > MAX_TITLE_LENGTH:
        problems["title"] = f"The title has more than {MAX_TITLE_LENGTH} characters."
    with transaction.atomic():
        lock_one(Project.objects.filter(pk=project.pk))
        problems |= _problems_of_slug(project, slug) | _problems_of_room(project)
        if problems:
            raise NotAddable(problems)
        is_upload = new_model.kind == Kind.UPLOAD
        policy_import = PolicyImport.objects.create(
            project=project,
            by=by,
            kind=new_model.kind,
            source=new_model.origin,
            revision=new_model.revision,
            slug=slug,
            title=new_model.name,
            files=dict(new_model.files) if is_upload else {},
            state=PolicyImport.State.UPLOADING if is_upload else PolicyImport.State.WAITING,
            **_template_fields(new_model.template, new_model.template_text),
        )
        details = {"kind": policy_import.kind, "source": policy_import.source}
        AuditEntry.record("model import started", str(policy_import), by, project, **details)
    return policy_import


def add_again(policy_import: PolicyImport, slug: str, template: str, template_text: str) -> None:
    """Queue a failed import again under this name, with this template. Raises NotAddable."""
    slug = slug.strip()
    new_model = NewModel(
        policy_import.kind, policy_import.source, template=template, template_text=template_text
    )
    problems = _problems_of_template(new_model)
    with transaction.atomic():
        lock_one(Project.objects.filter(pk=policy_import.project_id))
        problems |= _problems_of_slug(
            policy_import.project, slug, policy_import
        ) | _problems_of_room(policy_import.project)
        if policy_import.kind == Kind.UPLOAD and not policy_import.upload_folder.is_dir():
            problems["files"] = "The uploaded files were deleted; upload them again."
        if problems:
            raise NotAddable(problems)
        try:
            policy_import.again(slug=slug, **_template_fields(template, template_text))
        except ImportOver as over:
            raise NotAddable({"state": f"Nothing was changed: {over}."}) from None


def _template_fields(template: str, text: str) -> dict[str, str]:
    is_own = template == OWN
    return {"template": "" if is_own else template, "template_text": text if is_own else ""}


def _problems_of_source(new_model: NewModel) -> dict[str, str]:
    source = new_model.source.strip()
    if new_model.kind == Kind.UPLOAD:
        return _problem_of_upload(new_model.files)
    if new_model.kind == Kind.SERVER:
        return _problem_of_path(source)
    if new_model.kind == Kind.NAMED:
        names = ", ".join(sorted(CATALOGUE))
        return {} if source in CATALOGUE else {"source": f"The built-in models are {names}."}
    if new_model.kind != Kind.HUB:
        return {"kind": f"It must be one of {', '.join(Kind.values)}."}
    problems = {}
    if not HUB_ID.fullmatch(source):
        problems["source"] = "A Hub ID is owner/name, such as Qwen/Qwen2.5-0.5B-Instruct."
    if new_model.revision and not REVISION.fullmatch(new_model.revision):
        problems["revision"] = "A revision is a branch, a tag or a commit, such as main."
    return problems


def _problem_of_upload(files: Mapping[str, int]) -> dict[str, str]:
    try:
        require_uploadable(files)
    except BadUpload as error:
        return {"files": str(error)}
    return {}


def _problem_of_path(source: str) -> dict[str, str]:
    try:
        server_path(source)
    except UnsafePath as error:
        return {"source": f"{error}."}
    except OSError as error:
        return {"source": f"{source[:100]!r} cannot be read: {error.strerror}."}
    return {}


def _problems_of_template(new_model: NewModel) -> dict[str, str]:
    if new_model.template == OWN and not new_model.template_text.strip():
        return {"template_text": "Write the chat template, or choose another one."}
    if len(new_model.template_text.encode()) > TEMPLATE_LIMIT:
        return {"template_text": f"The template has more than {TEMPLATE_LIMIT:,} bytes."}
    if new_model.template not in ("", OWN, *PRESETS):
        return {"template": f"It must be one of {', '.join([*PRESETS, OWN])}, or empty."}
    return {}


def _problems_of_slug(
    project: Project, slug: str, but: PolicyImport | None = None
) -> dict[str, str]:
    if not slug:
        return {"slug": "Enter a title or a name."}
    if not SLUG.fullmatch(slug):
        return {"slug": "A name has 1 to 50 letters, digits, - and _."}
    if project.policies.filter(slug=slug).exists():
        return {"slug": f"A model {slug} already exists in {project.slug}; choose another name."}
    pending_imports = _under_way(project).filter(slug=slug)
    if but:
        pending_imports = pending_imports.exclude(pk=but.pk)
    if pending_imports.exists():
        return {"slug": f"A model {slug} is being added already; choose another name."}
    return {}


def _problems_of_room(project: Project) -> dict[str, str]:
    if _under_way(project).count() < MAX_OPEN:
        return {}
    return {"project": f"{project.slug} is adding {MAX_OPEN} models already; wait or stop one."}


def _under_way(project: Project) -> QuerySet[PolicyImport]:
    return project.policy_imports.filter(
        state__in=(*PolicyImport.OPEN, PolicyImport.State.UPLOADING)
    )
