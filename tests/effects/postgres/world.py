"""A server, its databases, and a gate before one of them."""

from contextlib import contextmanager

import psycopg
from psycopg.conninfo import make_conninfo
from tests.support.world import World, _ledger_bytes, work

from endmark.effects.postgres import PostgresTarget, setup

SEED = (
    "CREATE TABLE users (id integer PRIMARY KEY, name text)",
    "INSERT INTO users VALUES (1, 'ann'), (2, 'bob')",
)
# Everything SQL can see of a database but the numbers it gives by itself, line by line. Not the gate's fingerprint.
_DUMP = """
SELECT 'namespace', nspname::text, nspowner::regrole::text, nspacl::text, '' FROM pg_namespace
    WHERE nspname !~ '^pg_(temp|toast_temp)'
UNION ALL SELECT 'class', c.oid::regclass::text, relowner::regrole::text, relacl::text,
    concat_ws(' ', relkind, relpersistence, relhasrules, relhastriggers, relrowsecurity, reloptions, relnatts)
    FROM pg_class c WHERE c.oid >= 16384 AND relkind <> 't' AND relnamespace::regnamespace::text !~ '^pg_toast'
UNION ALL SELECT 'attribute', attrelid::regclass::text, NULL, attacl::text,
    concat_ws(' ', attnum, attname, atttypid::regtype, attnotnull, attisdropped, pg_get_expr(adbin, adrelid))
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attrelid >= 16384 AND attnum > 0 AND attrelid::regclass::text !~ '^pg_toast'
UNION ALL SELECT 'proc', p.oid::regprocedure::text, proowner::regrole::text, proacl::text,
    concat_ws(' ', prosrc, proconfig, prosecdef)
    FROM pg_proc p WHERE p.oid >= 16384
UNION ALL SELECT 'type', t.oid::regtype::text, typowner::regrole::text, typacl::text, typtype::text FROM pg_type t
    WHERE t.oid >= 16384
    AND t.oid::regtype::text !~ '^pg_toast'
UNION ALL SELECT 'constraint', conname::text, NULL, conrelid::regclass::text, pg_get_constraintdef(c.oid)
    FROM pg_constraint c WHERE c.oid >= 16384
UNION ALL SELECT 'index', indexrelid::regclass::text, NULL, indisvalid::text, pg_get_indexdef(indexrelid)
    FROM pg_index WHERE indexrelid >= 16384 AND indrelid::regclass::text !~ '^pg_toast'
UNION ALL SELECT 'trigger', tgname::text, NULL, tgrelid::regclass::text, tgenabled::text || pg_get_triggerdef(t.oid)
    FROM pg_trigger t WHERE NOT tgisinternal
UNION ALL SELECT 'rule', rulename::text, NULL, ev_class::regclass::text, pg_get_ruledef(r.oid) FROM pg_rewrite r
    WHERE r.oid >= 16384
UNION ALL SELECT 'policy', polname::text, NULL, polrelid::regclass::text, pg_get_expr(polqual, polrelid) FROM pg_policy
UNION ALL SELECT 'enum', enumlabel::text, NULL, enumtypid::regtype::text, enumsortorder::text FROM pg_enum
UNION ALL SELECT 'comment', description, NULL, pg_describe_object(classoid, objoid, objsubid), '' FROM pg_description
    WHERE objoid >= 16384
UNION ALL SELECT 'setting', setdatabase::text, setrole::regrole::text, setconfig::text, '' FROM pg_db_role_setting
    WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL SELECT 'extension', extname::text, extowner::regrole::text, extversion, '' FROM pg_extension
"""


def _quiet(_done, _total):
    return None


def _go():
    return None


class Cluster:
    """A server and what this process needs in it: two roles, and a template database that is set up."""

    def __init__(self, url, prefix):
        self.url = url
        self.prefix = prefix
        self.gate = f"{prefix}_gate"
        self.owner = f"{prefix}_owner"
        self.template = f"{prefix}_template"

    def admin(self, database=None):
        url = make_conninfo(self.url, dbname=database) if database else self.url
        return psycopg.connect(url, autocommit=True)

    def make(self):
        with self.admin() as conn:
            conn.execute(f"CREATE ROLE {self.gate} LOGIN PASSWORD 'pässword'")
            conn.execute(f"CREATE DATABASE {self.template}")
        with self.admin(self.template) as conn, conn.transaction():
            conn.execute(f"GRANT CREATE, USAGE ON SCHEMA public TO {self.gate}")
            for statement in setup.statements(self.gate, owner=self.owner):
                conn.execute(statement)

    def remove(self):
        ours = [f"{self.prefix}_"]
        with self.admin() as conn:
            databases = conn.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", ours).fetchall()
            for (name,) in databases:
                conn.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            for (role,) in conn.execute("SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", ours).fetchall():
                conn.execute(f"DROP ROLE {role}")

    @contextmanager
    def database(self, number, template=None):
        name = f"{self.prefix}_{number}"
        with self.admin() as conn:
            conn.execute(f"CREATE DATABASE {name} TEMPLATE {template or self.template}")
            conn.execute(f"GRANT CREATE ON DATABASE {name} TO {self.gate}")
        made = Database(self, name)
        try:  # one connection of the administrator for all that is looked at
            for statement in SEED if template is None else ():
                made.as_gate(statement)
            yield made
        finally:
            made.close()
            with self.admin() as conn:
                conn.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class Database:
    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name
        self.url = make_url(cluster.url, cluster.gate, name)
        self.target = PostgresTarget(self.url)
        self._admin = None

    @property
    def admin(self):
        if self._admin is None or self._admin.closed:
            self._admin = self.cluster.admin(self.name)
        return self._admin

    def close(self):
        if self._admin is not None:
            self._admin.close()

    def query(self, sql, *values):
        """As the administrator."""
        try:
            cursor = self.admin.execute(sql, values or None)
        except psycopg.OperationalError:  # the server was started anew meanwhile
            self.close()
            cursor = self.admin.execute(sql, values or None)
        return cursor.fetchall() if cursor.description else []

    def cluster_query(self, sql):
        """As the administrator, on a connection of its own: for another thread."""
        with self.cluster.admin(self.name) as conn:
            return conn.execute(sql).fetchall()

    def as_gate(self, sql):
        """One statement as the gate's role, outside of any gate."""
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(sql)

    def dump(self):
        lines = sorted(str(row) for row in self.admin.execute(_DUMP))
        tables = self.query("SELECT oid::regclass::text FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'm')")
        names = sorted(name for (name,) in tables if not name.startswith(("pg_", "information_schema")))
        all_rows = " UNION ALL ".join(f"SELECT '{name}', t::text FROM {name} AS t" for name in names)
        return lines + sorted(f"{name} {row}" for name, row in self.query(all_rows))

    def receipts(self):
        return {
            job: tuple(rest) for job, *rest in self.query("SELECT job_id, stmt_count, sha256, status FROM schema_jobs")
        }

    def run(self, statements, job_id="j1", *, timeout=10.0, lock=0.0, target=None, progress=_quiet, stop=_go, **more):
        """Run one job through the session alone: what was changed, or Failed or CannotTry."""
        with (target or self.target).open() as session:
            session.lock(lock)
            ran = session.run(work(statements, job_id, **more), timeout, progress, stop)
            session.commit()
            return ran

    def receipt(self, job_id):
        with self.target.open() as session:
            return session.receipt(job_id)

    def receipt_as(self, target, job_id):
        with target.open() as session:
            return session.receipt(job_id)

    def fingerprint(self):
        with self.target.open() as session:
            return session.fingerprint()


def make_url(admin, user, database):
    """The URL of another role and database on the administrator's server."""
    known = psycopg.conninfo.conninfo_to_dict(admin)
    return f"postgresql://{user}:p%C3%A4ssword@{known.get('host', '127.0.0.1')}:{known.get('port', 5432)}/{database}"


class PostgresWorld(World):
    """A target and a ledger."""

    def __init__(self, folder, database, target=None):
        self.folder = folder
        self.database = database
        self.ledger = folder / "book" / "ledger.db"
        self.target = target or database.target
        if not self.ledger.exists():
            self.ledger.parent.mkdir(parents=True)
            self.ledger.write_bytes(_ledger_bytes())

    def dump(self):
        return self.database.dump()

    def receipts(self):
        return self.database.receipts()

    def check_books_agree(self):
        """The ledger's applied jobs are exactly the target's receipts, nothing is half done, and the chain holds."""
        with self.book() as ledger:
            entries, report = ledger.page(10_000), ledger.verify()
        assert report.ok, report.problems
        assert [entry.job_id for entry in entries if entry.state == "applying"] == []
        applied = {entry.job_id: (entry.stmt_count, entry.sha256) for entry in entries if entry.state == "applied"}
        receipts = self.receipts()
        assert {job: row[:2] for job, row in receipts.items()} == applied
        assert {row[2] for row in receipts.values()} <= {"applied", "reverted"}
        counted = self.database.query("SELECT job_id FROM endmark.endmark_receipts WHERE statements_run IS NOT NULL")
        assert {job for (job,) in counted} == set(receipts)
