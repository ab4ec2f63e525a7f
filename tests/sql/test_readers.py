"""A reader role, with its own connection: it can read the views and do nothing else."""

from io import StringIO

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from apps.accounts.models import AuditEntry
from apps.runs.models import Metric
from rftweb.sql import making, readers

pytestmark = pytest.mark.django_db(transaction=True)
NAME = "an_analyst"
REFUSALS = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)


@pytest.fixture
def reader(run):
    """Create the reader role, yield a function that connects as it, and delete it afterwards."""
    Metric.record(run, 1, {"kl": 0.5})
    password, was_there = readers.make_reader(NAME)
    assert not was_there
    opened = []

    def connect(secret: str = password) -> psycopg.Connection:
        ours = connection.get_connection_params()
        where = {name: ours[name] for name in ("host", "port", "dbname") if name in ours}
        opened.append(psycopg.connect(**where, user=NAME, password=secret, autocommit=True))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()
    if NAME in readers.reader_names():
        readers.revoke_reader(NAME)


def test_reader_can_query_every_view_without_a_schema_name(reader):
    ours = reader()
    assert ours.execute("SELECT name, value FROM metrics").fetchall() == [("kl", 0.5)]
    for view in making.VIEWS:
        ours.execute(f"SELECT * FROM {view.name} LIMIT 1")


@pytest.mark.parametrize(
    "words",
    [
        "SELECT password FROM public.accounts_user",
        "SELECT digest FROM public.accounts_token",
        "SELECT * FROM public.django_session",
        "SELECT * FROM public.runs_metric",
        "INSERT INTO metrics (run_id) VALUES (1)",
        "DELETE FROM public.runs_metric",
        "DELETE FROM metrics",
        "CREATE TABLE public.mine (id int)",
        "CREATE TABLE reporting.mine (id int)",
        "ALTER ROLE an_analyst SUPERUSER",
        "SET ROLE pg_read_all_data",
        "COPY (SELECT 1) TO '/tmp/out'",
    ],
)
def test_reader_can_do_nothing_else_even_after_lifting_its_own_limits(reader, words):
    ours = reader()
    ours.execute("SET default_transaction_read_only = off")
    with pytest.raises(REFUSALS):
        ours.execute(words)
    assert Metric.objects.count() == 1


def test_reader_begins_with_limits(reader):
    ours = reader()
    said = {name: ours.execute(f"SHOW {name}").fetchone()[0] for name in readers.LIMITS}
    assert said == {
        **readers.LIMITS,
        "statement_timeout": "1min",
        "idle_in_transaction_session_timeout": "1min",
    }


def test_reader_can_query_recreated_views_after_migrations(reader):
    ours = reader()
    making.drop_views()
    with pytest.raises(psycopg.errors.UndefinedTable):
        ours.execute("SELECT * FROM metrics")
    making.make_views()
    assert ours.execute("SELECT count(*) FROM metrics").fetchone() == (1,)


def test_password_of_a_reader_is_shown_once_and_can_be_renewed(reader):
    out = StringIO()
    call_command("sql_reader", name=NAME, stdout=out)
    password = out.getvalue().partition("password=")[2].split()[0]
    assert "has a new password" in out.getvalue() and reader(password).execute(
        "SELECT 1"
    ).fetchone() == (1,)
    assert [
        entry.action
        for entry in AuditEntry.objects.filter(target=f"database role {NAME}").order_by("pk")
    ] == [
        "sql reader made",
        "sql reader renewed",
    ]
    assert not AuditEntry.objects.filter(details__icontains=password).exists()


def test_revoked_reader_is_disconnected(reader, eventually):
    ours = reader()
    call_command("sql_reader", name=NAME, revoke=True, stdout=StringIO())
    assert readers.reader_names() == []

    def is_cut() -> bool:
        try:
            ours.execute("SELECT 1")
        except psycopg.OperationalError:
            return True
        return False

    eventually(is_cut)
    with pytest.raises(psycopg.OperationalError):
        reader()


def test_invalid_or_unknown_reader_names_are_refused(db):
    with pytest.raises(CommandError, match="small letters"):
        call_command("sql_reader", name="Analyst!")
    with pytest.raises(CommandError, match="no reader 'nobody_here'"):
        call_command("sql_reader", name="nobody_here", revoke=True)


def test_foreign_database_role_is_neither_changed_nor_revoked(db):
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE somebody_else")
        try:
            with pytest.raises(CommandError, match="no reader of this installation"):
                call_command("sql_reader", name="somebody_else")
            with pytest.raises(CommandError, match="no reader 'somebody_else'"):
                call_command("sql_reader", name="somebody_else", revoke=True)
        finally:
            cursor.execute("DROP ROLE somebody_else")
