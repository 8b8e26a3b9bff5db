"""What stands in a target, and what its role may do: whether a receipt can be believed here."""

import msgspec

from endmark.core.refusal import CannotTry
from endmark.effects.postgres.channel import Reply, Step
from endmark.effects.postgres.functions import ALONE, FUNCTIONS, JOBS, RECEIPTS, SCHEMA, TRIGGER, WHOLE, digest

SETUP = "'endmark target setup' makes it ready, 'endmark target setup --print' shows how"

_NAMES = ", ".join(f"'{function.name}'" for function in FUNCTIONS)
# Asked with search_path = pg_catalog. One row; NULLs where nothing was set up.
ASK = Step(
    f"""
WITH me AS (SELECT oid FROM pg_roles WHERE rolname = session_user),
reach AS (SELECT r.oid, r.rolname, r.rolsuper, r.rolcreaterole FROM pg_roles AS r, me
    WHERE pg_has_role(me.oid, r.oid, 'MEMBER')),
jobs AS (SELECT c.oid, n.nspname, c.relowner, n.nspowner, t.tgenabled = 'A' AND t.tgdeferrable AND t.tginitdeferred
        AND t.tgtype = 21 AND EXISTS (SELECT FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid
            AND a.attnum = i.indkey[0] WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
            AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = 'job_id') AS guarded,
        c.relkind, c.relhasrules, c.relrowsecurity
    FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE t.tgname = '{TRIGGER}' AND c.relname = '{JOBS}'
        AND t.tgfoid IN {WHOLE} AND NOT t.tgisinternal),
made AS (SELECT p.oid, p.proowner, p.prosecdef, p.proconfig, p.prosrc, p.proname, p.pronamespace
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = '{SCHEMA}' AND p.proname IN ({_NAMES})),
counts AS (SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relname IN ('{RECEIPTS}', '{ALONE}'))
SELECT (SELECT count(*) FROM jobs)::text,
    (SELECT min(nspname) FROM jobs),
    (SELECT min(pg_get_userbyid(relowner)) FROM jobs),
    (SELECT bool_and(guarded AND relkind = 'r' AND NOT relhasrules AND NOT relrowsecurity) FROM jobs)::text,
    (SELECT encode(sha256(convert_to(string_agg(prosrc, '' ORDER BY proname COLLATE "C"), 'UTF8')), 'hex') FROM made),
    (SELECT bool_and(CASE WHEN proname = 'still' THEN NOT prosecdef AND proconfig IS NULL ELSE
            prosecdef AND proconfig IS NOT DISTINCT FROM ARRAY['search_path=pg_catalog, pg_temp'] END
        AND proowner = (SELECT min(relowner::text)::oid FROM jobs)) AND count(*) = {len(FUNCTIONS)} FROM made)::text,
    (SELECT bool_and(c.relowner = j.relowner AND NOT c.relhastriggers AND NOT c.relhasrules AND c.relkind = 'r'
        AND (SELECT nspowner FROM pg_namespace WHERE nspname = '{SCHEMA}') = j.relowner) AND count(*) = 2
        FROM counts JOIN pg_class AS c USING (oid), jobs AS j)::text,
    (SELECT string_agg(t.tgname, ', ') FROM pg_trigger AS t, jobs AS j
        WHERE t.tgrelid = j.oid AND NOT t.tgisinternal AND t.tgname <> '{TRIGGER}'),
    (SELECT bool_or(rolsuper) FROM reach)::text,
    (SELECT string_agg(rolname, ', ') FROM reach, jobs WHERE reach.oid = relowner),
    (SELECT bool_or(rolcreaterole) AND current_setting('server_version_num')::int < 160000 FROM reach)::text,
    (SELECT string_agg(rolname, ', ') FROM reach
        WHERE rolname IN ('pg_write_all_data', 'pg_execute_server_program', 'pg_write_server_files')),
    (SELECT string_agg(rolname, ', ') FROM reach, jobs, counts
        WHERE has_table_privilege(reach.oid, jobs.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
        OR has_table_privilege(reach.oid, counts.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')),
    (SELECT string_agg(rolname, ', ') FROM reach, jobs WHERE reach.oid = nspowner),
    (SELECT bool_and(has_schema_privilege(session_user, pronamespace, 'USAGE')
        AND (proname = 'whole' OR has_function_privilege(session_user, oid, 'EXECUTE'))) FROM made)::text,
    session_user::text
""".encode()
)


class Standing(msgspec.Struct, frozen=True):
    """What was found. `faults`: no receipt can be believed; `powers`: the role could write receipts by itself.

    `schema` holds `schema_jobs` and `owner` owns it; both None where nothing was set up.
    """

    role: str
    schema: str | None
    owner: str | None
    faults: tuple[str, ...]
    powers: tuple[str, ...]
    notes: tuple[str, ...]


def read(reply: Reply) -> Standing:
    """What the reply to `ASK` says."""
    (row,) = reply.rows
    found, schema, owner, guarded, sources, own, counts, triggers = row[:8]
    is_super, owners, may_make, strong, writers, schema_owners, may_call, role = row[8:]
    faults: list[str] = []
    if found != "1" or schema is None:
        faults.append("it was not set up for endmark" if found == "0" else f"{found} tables have the receipts' trigger")
    else:
        faults += [
            said
            for said, good in (
                (
                    f"the trigger {TRIGGER} on schema_jobs is not as it was set up, or its job_id is not unique",
                    guarded == "true",
                ),
                ("the functions are not those that this release makes", sources == digest(schema)),
                ("the functions do not run as the owner of schema_jobs", own == "true"),
                (f"{SCHEMA}.{RECEIPTS} or {SCHEMA}.{ALONE} is not as it was set up", counts == "true"),
                (f"the role {role} is not the one it was set up for", may_call == "true"),
                (f"another trigger stands on schema_jobs: {triggers}", triggers is None),
            )
            if not good
        ]
    powers = [
        said
        for said, bad in (
            (f"the role {role} is, or may become, a superuser", is_super == "true"),
            (f"the role {role} may become {owner}, which owns the receipts", owners is not None),
            (f"the role {role} has CREATEROLE, which before release 16 lets it become any role", may_make == "true"),
            (f"the role {role} is a member of {strong}", strong is not None),
            (f"the role {role} may write the receipts, as {writers}", writers is not None and owners is None),
        )
        if bad
    ]
    if is_super == "true":  # who is all says little more
        powers = powers[:1]
    notes = []
    if schema_owners is not None and not powers:
        notes.append(f"{schema_owners} owns the schema {schema} and could drop schema_jobs outside of a plan")
    return Standing(role or "", schema, owner, tuple(faults), tuple(powers), tuple(notes))


def believe(standing: Standing, where: str, allow_owner: bool) -> None:
    """Go on only where a receipt can be believed. Raises CannotTry."""
    if standing.faults:
        why = "; ".join(standing.faults)
        raise CannotTry(f"no receipt can be believed in {where}: {why}. Nothing was written. {SETUP}.")
    if standing.powers and not allow_owner:
        why = "; ".join(standing.powers)
        raise CannotTry(
            f"a plan could write its own receipts in {where}: {why}. Nothing was written; connect as a role that "
            "only uses the database, or set allow_owner = true for a target with a name."
        )
