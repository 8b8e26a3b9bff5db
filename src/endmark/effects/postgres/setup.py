"""The statements that make a target ready, run once by whoever may: a role, a schema, three tables, nine functions."""

from endmark.effects.postgres.functions import (
    ALONE,
    FUNCTIONS,
    RECEIPTS,
    SCHEMA,
    TRIGGER,
    create,
    jobs_table,
    quoted,
)

OWNER = "endmark_owner"
_JOBS_COLUMNS = (
    "job_id text NOT NULL PRIMARY KEY, stmt_count integer NOT NULL, sha256 text NOT NULL, status text NOT NULL"
)
_RECEIPTS_COLUMNS = (
    "job_id text NOT NULL PRIMARY KEY, attempt_id text NOT NULL, nonce_sha256 text NOT NULL, statements_run integer, "
    "rows_changed text, fingerprint_before text, fingerprint_after text, applied_at timestamptz"
)
_ALONE_COLUMNS = (
    "job_id text NOT NULL PRIMARY KEY, attempt_id text NOT NULL, kind text NOT NULL, seen text NOT NULL, "
    "fingerprint_before text NOT NULL, reverts text"
)
_WHOLE = (
    f"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status::text = 'applying') EXECUTE FUNCTION {SCHEMA}.whole()"
)
_QUOTE = "$endmark$"  # around what is quoted below

_OWNER_ROLE = """DO $endmark$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = {owner}) THEN
    CREATE ROLE {role} NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
  END IF;
  IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    EXECUTE {join};
  END IF;
END $endmark$"""
_LEAVE_OWNER = """DO $endmark$ BEGIN
  IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
    EXECUTE {leave};
  END IF;
END $endmark$"""
_COLUMNS = """DO $endmark$ DECLARE first text; BEGIN
  SELECT pg_catalog.string_agg(attname, ', ' ORDER BY attnum) INTO first FROM (
    SELECT attname, attnum FROM pg_catalog.pg_attribute
      WHERE attrelid = {jobs}::pg_catalog.regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum LIMIT 4) AS four;
  IF first IS DISTINCT FROM 'job_id, stmt_count, sha256, status' THEN
    RAISE EXCEPTION 'schema_jobs begins with the columns %, not with job_id, stmt_count, sha256, status', first;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_attribute AS a
      ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
      WHERE i.indrelid = {jobs}::pg_catalog.regclass AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
        AND i.indnkeyatts = 1 AND a.attname = 'job_id') THEN
    RAISE EXCEPTION 'schema_jobs has no unique job_id, so a job could be recorded twice';
  END IF;
END $endmark$"""


def statements(role: str, schema: str = "public", owner: str = OWNER) -> list[str]:
    """What an administrator runs, in this order and in one transaction; a second time it changes nothing.

    `role` is the gate's; `schema` holds `schema_jobs`; `owner` becomes the owner of all that is
    made. Raises ValueError for names that no role can have.
    """
    for name in (role, schema, owner):
        if not name or "\0" in name or _QUOTE in name:
            raise ValueError(f"{name!r} is no name of a role or schema")
    if role == owner:
        raise ValueError(f"{role} cannot be both the gate's role and the owner of the receipts")
    jobs, our_role, gate = jobs_table(schema), quoted(owner), quoted(role)
    names = {
        "jobs": _literal(jobs),
        "owner": _literal(owner),
        "role": our_role,
        "join": _literal(f"GRANT {our_role} TO CURRENT_USER"),
        "leave": _literal(f"REVOKE {our_role} FROM CURRENT_USER"),
    }
    made = [
        _fill(_OWNER_ROLE, names),
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA} AUTHORIZATION {our_role}",
        f"GRANT USAGE, CREATE ON SCHEMA {quoted(schema)} TO {our_role}",
        f"CREATE TABLE IF NOT EXISTS {jobs} ({_JOBS_COLUMNS})",
        _fill(_COLUMNS, names),
        f"ALTER TABLE {jobs} OWNER TO {our_role}",
        f"REVOKE CREATE ON SCHEMA {quoted(schema)} FROM {our_role}",
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{RECEIPTS} ({_RECEIPTS_COLUMNS})",
        f"ALTER TABLE {SCHEMA}.{RECEIPTS} OWNER TO {our_role}",
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{ALONE} ({_ALONE_COLUMNS})",
        f"ALTER TABLE {SCHEMA}.{ALONE} OWNER TO {our_role}",
    ]
    for function in FUNCTIONS:
        made.append(create(function, schema))
        made.append(f"ALTER FUNCTION {SCHEMA}.{function.name}({function.types}) OWNER TO {our_role}")
        made.append(f"REVOKE ALL ON FUNCTION {SCHEMA}.{function.name}({function.types}) FROM PUBLIC")
    made += [
        f"DROP TRIGGER IF EXISTS {TRIGGER} ON {jobs}",
        f"CREATE CONSTRAINT TRIGGER {TRIGGER} AFTER INSERT OR UPDATE ON {jobs} {_WHOLE}",
        # Also where session_replication_role says that triggers do not fire.
        f"ALTER TABLE {jobs} ENABLE ALWAYS TRIGGER {TRIGGER}",
        f"REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON {jobs} FROM PUBLIC, {gate}",
        f"REVOKE ALL ON {SCHEMA}.{RECEIPTS}, {SCHEMA}.{ALONE} FROM PUBLIC, {gate}",
        f"REVOKE ALL ON SCHEMA {SCHEMA} FROM PUBLIC, {gate}",
        # A plan may have become another role when its statements are guarded.
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO PUBLIC",
        *(
            f"GRANT EXECUTE ON FUNCTION {SCHEMA}.{function.name}({function.types}) "
            f"TO {gate if function.definer else 'PUBLIC'}"
            for function in FUNCTIONS
            if function.gate
        ),
        _fill(_LEAVE_OWNER, names),
    ]
    return made


def script(role: str, schema: str = "public", owner: str = OWNER) -> str:
    """The same as a script for psql."""
    title = f"-- Makes this database ready for endmark, whose gate connects as {role!r}. Run it as an administrator."
    return ";\n".join([title + "\nBEGIN", *statements(role, schema, owner), "COMMIT"]) + ";\n"


def _fill(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
