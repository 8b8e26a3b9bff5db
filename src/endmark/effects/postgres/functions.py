"""What stands in the target: the functions through which receipts are written, and the trigger that guards them.

`{jobs}` is the table `schema_jobs` with its schema. Each function names everything with its schema, or runs with a
fixed search_path, so that nothing a plan makes or sets is taken for ours.
"""

import hashlib
from typing import NamedTuple

SCHEMA = "endmark"
RECEIPTS = "endmark_receipts"
ALONE = "endmark_alone"  # the one job, if any, whose statement runs outside of a transaction
JOBS = "schema_jobs"
TRIGGER = "endmark_whole"
NOT_WHOLE = "EM001"  # SQLSTATE: a transaction may not be committed before its job is finished
NOT_OURS = "EM002"  # SQLSTATE: not the gate, or not in its turn
NOT_STILL = "EM003"  # SQLSTATE: the transaction is not the one that the job began in
# The trigger's function, by the catalogs: to_regprocedure would raise for a role that may not use the schema.
WHOLE = (
    "(SELECT w.oid FROM pg_proc AS w JOIN pg_namespace AS v ON v.oid = w.pronamespace "
    f"WHERE v.nspname = '{SCHEMA}' AND w.proname = 'whole')"
)
COUNTS = (
    "(SELECT w.oid FROM pg_class AS w JOIN pg_namespace AS v ON v.oid = w.relnamespace "
    f"WHERE v.nspname = '{SCHEMA}' AND w.relname = '{RECEIPTS}')"
)


class Function(NamedTuple):
    """One function. `gate`: whether the gate's role may call it."""

    name: str
    arguments: str
    types: str
    returns: str
    language: str
    body: str
    gate: bool = True
    definer: bool = True  # runs as the owner, with a path of its own

    @property
    def call(self) -> str:
        """The one statement that may call it, character by character: with values bound, which a plan has none of."""
        return f"SELECT {SCHEMA}.{self.name}({', '.join(f'${at}' for at in range(1, self.types.count('text') + 1))})"


_WHOLE = """
DECLARE
  stands text;
BEGIN
  IF NOT EXISTS (SELECT FROM endmark.endmark_receipts WHERE job_id = NEW.job_id::text) THEN
    RETURN NULL;  -- a row of another tool, or one that begin_alone wrote
  END IF;
  -- The table that the row stands in, whatever name it bears by now.
  EXECUTE format('SELECT status::text FROM %s WHERE job_id::text = $1', TG_RELID::regclass)
    INTO stands USING NEW.job_id::text;
  IF stands IS NULL OR stands NOT IN ('applied', 'reverted') THEN
    RAISE EXCEPTION 'endmark: job % is not finished, so nothing of it can be committed', NEW.job_id
      USING ERRCODE = 'EM001';
  END IF;
  RETURN NULL;
END
"""
# What a client said last, and not what a function, trigger, check, index or EXECUTE makes of it; NULL in autovacuum.
_CALLED = """  IF current_query() IS DISTINCT FROM '{call}' THEN
    RAISE EXCEPTION 'endmark: only the gate itself may call this' USING ERRCODE = 'EM002';
  END IF;
"""
_HELD = """  IF NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted
      AND mode = 'ExclusiveLock' AND objsubid = 2 AND classid = 1701733485 AND objid = 1634888497
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) THEN
    RAISE EXCEPTION 'endmark: the target is not locked' USING ERRCODE = 'EM002';
  END IF;
"""
_BEGIN = (
    """
BEGIN
  -- Whoever has written anything is a plan, and no gate: a plan cannot record a second job beside its own.
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION 'endmark: a job begins before anything else is written' USING ERRCODE = 'EM002';
  END IF;
"""
    + _CALLED
    + """
  IF job !~ '^[A-Za-z0-9._:-]{1,128}$' OR digest !~ '^[0-9a-f]{64}$' OR nonce_sha256 !~ '^[0-9a-f]{64}$' THEN
    RAISE EXCEPTION 'endmark: no job id or no digest' USING ERRCODE = 'EM002';
  END IF;
  INSERT INTO endmark.endmark_receipts (job_id, attempt_id, nonce_sha256) VALUES (job, attempt, nonce_sha256);
  INSERT INTO {jobs} (job_id, stmt_count, sha256, status) VALUES (job, counted::integer, digest, 'applying');
  RETURN pg_current_xact_id()::text;
END
"""
)
_FINISH = (
    """
BEGIN
  -- The nonce is the gate's alone; the row was written by this very transaction.
  IF NOT EXISTS (SELECT FROM endmark.endmark_receipts WHERE job_id = job AND xmin = pg_current_xact_id()::xid
      AND nonce_sha256 = encode(sha256(convert_to(nonce, 'UTF8')), 'hex')) THEN
    RAISE EXCEPTION 'endmark: job % was not begun here with this nonce', job USING ERRCODE = 'EM002';
  END IF;
"""
    + _CALLED
    + """
  UPDATE {jobs} SET status = 'applied' WHERE job_id = job AND status = 'applying';
  IF NOT FOUND THEN
    RAISE EXCEPTION 'endmark: the receipt of job % is not applying', job USING ERRCODE = 'EM002';
  END IF;
  IF undone IS NOT NULL THEN
    UPDATE {jobs} SET status = 'reverted' WHERE job_id = undone AND status = 'applied';
    IF NOT FOUND THEN
      RAISE EXCEPTION 'endmark: job % has no receipt that says applied', undone USING ERRCODE = 'EM002';
    END IF;
  END IF;
END
"""
)
_COUNT = (
    """
BEGIN
"""
    + _CALLED
    + """
  UPDATE endmark.endmark_receipts SET statements_run = ran::integer, rows_changed = changed,
      fingerprint_before = before, fingerprint_after = after, applied_at = applied::timestamptz
    WHERE job_id = job AND xmin = pg_current_xact_id()::xid
      AND nonce_sha256 = encode(sha256(convert_to(nonce, 'UTF8')), 'hex');
  IF NOT FOUND THEN
    RAISE EXCEPTION 'endmark: job % was not begun here with this nonce', job USING ERRCODE = 'EM002';
  END IF;
END
"""
)
_RECEIPT = """
  SELECT j.job_id::text, j.stmt_count::text, j.sha256::text, j.status::text,
      r.statements_run::text, r.rows_changed, r.fingerprint_after
    FROM {jobs} AS j LEFT JOIN endmark.endmark_receipts AS r ON r.job_id = j.job_id::text
    WHERE j.job_id = job AND j.job_id::text COLLATE "C" = job  -- where the table folds case, too
"""
# The receipt of a statement that runs outside of a transaction, written and committed before it runs.
_BEGIN_ALONE = (
    """
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION 'endmark: a job begins before anything else is written' USING ERRCODE = 'EM002';
  END IF;
"""
    + _CALLED
    + _HELD
    + """
  IF job !~ '^[A-Za-z0-9._:-]{1,128}$' OR digest !~ '^[0-9a-f]{64}$' THEN
    RAISE EXCEPTION 'endmark: no job id or no digest' USING ERRCODE = 'EM002';
  END IF;
  IF EXISTS (SELECT FROM endmark.endmark_alone) THEN
    RAISE EXCEPTION 'endmark: another job is not finished here' USING ERRCODE = 'EM002';
  END IF;
  INSERT INTO endmark.endmark_alone (job_id, attempt_id, kind, seen, fingerprint_before, reverts)
    VALUES (job, attempt, kind, seen, before, undone);
  INSERT INTO {jobs} (job_id, stmt_count, sha256, status) VALUES (job, 1, digest, 'applying');
END
"""
)
_END_ALONE = (
    """
DECLARE
  was endmark.endmark_alone;
BEGIN
"""
    + _CALLED
    + _HELD
    + """
  SELECT * INTO was FROM endmark.endmark_alone WHERE job_id = job;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'endmark: job % does not run alone here', job USING ERRCODE = 'EM002';
  END IF;
  IF ended = 'nothing' THEN
    DELETE FROM {jobs} WHERE job_id = job AND status = 'applying';
  ELSE
    UPDATE {jobs} SET status = ended WHERE job_id = job AND (status::text, ended) IN (('applying', 'applied'),
      ('applying', 'partial'), ('applying', 'settled'), ('partial', 'settled'));
  END IF;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'endmark: the receipt of job % cannot become %', job, ended USING ERRCODE = 'EM002';
  END IF;
  IF ended = 'applied' THEN
    INSERT INTO endmark.endmark_receipts (job_id, attempt_id, nonce_sha256, statements_run, rows_changed,
        fingerprint_before, fingerprint_after, applied_at)
      VALUES (job, was.attempt_id, '', 1, '0', was.fingerprint_before, after,
        coalesce(applied::timestamptz, now()));
    IF was.reverts IS NOT NULL THEN
      UPDATE {jobs} SET status = 'reverted' WHERE job_id = was.reverts AND status = 'applied';
      IF NOT FOUND THEN
        RAISE EXCEPTION 'endmark: job % has no receipt that says applied', was.reverts USING ERRCODE = 'EM002';
      END IF;
    END IF;
  END IF;
  IF ended <> 'partial' THEN
    DELETE FROM endmark.endmark_alone WHERE job_id = job;
  END IF;
END
"""
)
# The guard after each statement, parsed and planned once a connection. It runs as whoever the plan has become, with the
# plan's own settings: each name and operator says where it stands.
_STILL = """
BEGIN
  IF pg_catalog.current_setting('client_encoding') OPERATOR(pg_catalog.<>) 'UTF8'
      OR (pg_catalog.pg_current_xact_id_if_assigned())::pg_catalog.text IS DISTINCT FROM xact THEN
    RAISE EXCEPTION 'endmark: the transaction is another, or the encoding' USING ERRCODE = 'EM003';
  END IF;
  statement_ms := pg_catalog.set_config('statement_timeout', statement_ms, true);
  lock_ms := pg_catalog.set_config('lock_timeout', lock_ms, true);
END
"""
_UNFINISHED = """
  SELECT a.job_id, j.status::text, a.kind, a.seen, a.fingerprint_before
    FROM endmark.endmark_alone AS a LEFT JOIN {jobs} AS j ON j.job_id::text = a.job_id
"""

FUNCTIONS = (
    Function("whole", "", "", "trigger", "plpgsql", _WHOLE, gate=False),
    Function(
        "begin_job",
        "job text, attempt text, counted text, digest text, nonce_sha256 text",
        "text, text, text, text, text",
        "text",
        "plpgsql",
        _BEGIN,
    ),
    Function("finish", "job text, nonce text, undone text", "text, text, text", "void", "plpgsql", _FINISH),
    Function(
        "count_job",
        "job text, nonce text, ran text, changed text, before text, after text, applied text",
        "text, text, text, text, text, text, text",
        "void",
        "plpgsql",
        _COUNT,
    ),
    Function(
        "receipt",
        "job text",
        "text",
        "TABLE (job_id text, stmt_count text, sha256 text, status text, statements_run text, rows_changed text, "
        "fingerprint_after text)",
        "sql",
        _RECEIPT,
    ),
    Function(
        "begin_alone",
        "job text, attempt text, digest text, kind text, seen text, before text, undone text",
        "text, text, text, text, text, text, text",
        "void",
        "plpgsql",
        _BEGIN_ALONE,
    ),
    Function(
        "end_alone",
        "job text, ended text, after text, applied text",
        "text, text, text, text",
        "void",
        "plpgsql",
        _END_ALONE,
    ),
    Function(
        "unfinished",
        "",
        "",
        "TABLE (job_id text, status text, kind text, seen text, fingerprint_before text)",
        "sql",
        _UNFINISHED,
    ),
    Function(
        "still",
        "xact text, statement_ms text, lock_ms text",
        "text, text, text",
        "void",
        "plpgsql",
        _STILL,
        definer=False,
    ),
)
CALLS = {function.name: function.call.encode() for function in FUNCTIONS}


def quoted(name: str) -> str:
    """A name as PostgreSQL spells an identifier."""
    return '"' + name.replace('"', '""') + '"'


def jobs_table(schema: str) -> str:
    """`schema_jobs` with its schema, quoted."""
    return f"{quoted(schema)}.{JOBS}"


def body(function: Function, schema: str) -> str:
    """The function's source for a `schema_jobs` that stands in `schema`."""
    return function.body.replace("{jobs}", jobs_table(schema)).replace("{call}", function.call)


def create(function: Function, schema: str) -> str:
    """The statement that makes the function."""
    how = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp" if function.definer else "SECURITY INVOKER"
    return (
        f"CREATE OR REPLACE FUNCTION {SCHEMA}.{function.name}({function.arguments}) RETURNS {function.returns} "
        f"LANGUAGE {function.language} {how} "
        f"AS $endmark${body(function, schema)}$endmark$"
    )


def digest(schema: str) -> str:
    """64 hex over the sources, as `standing` asks the server for them: what was set up is what this release makes."""
    sources = "".join(body(function, schema) for function in sorted(FUNCTIONS))
    return hashlib.sha256(sources.encode()).hexdigest()
