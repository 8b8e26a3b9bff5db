"""What stands in a target, and what its role may do: whether a receipt can be believed here."""

import msgspec

from endmark.core.refusal import CannotTry
from endmark.effects.postgres.channel import Reply, Step
from endmark.effects.postgres.functions import ALONE, FUNCTIONS, JOBS, RECEIPTS, SCHEMA, TRIGGER, WHOLE, digest

SETUP = "'endmark target setup' makes it ready, 'endmark target setup --print' shows how"

_NAMES = ", ".join(f"'{function.name}'" for function in FUNCTIONS)
_WRITES = "'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'"
# Asked with search_path = pg_catalog. One row; NULLs where nothing was set up. Each catalog is read once, for the
# planning is what a question costs on a connection that is new.
ASK = Step(
    f"""
WITH jobs AS (SELECT c.oid, n.nspname::text, c.relowner, n.nspowner, t.tgenabled = 'A' AND t.tgdeferrable
        AND t.tginitdeferred AND t.tgtype = 21 AND c.relkind = 'r' AND NOT c.relhasrules AND NOT c.relrowsecurity
        AND EXISTS (SELECT FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid
            AND a.attnum = i.indkey[0] WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
            AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = 'job_id') AS guarded
    FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE t.tgname = '{TRIGGER}' AND c.relname = '{JOBS}'
        AND t.tgfoid IN {WHOLE} AND NOT t.tgisinternal)
SELECT j.found::text, j.schema, pg_get_userbyid(j.owner)::text, j.guarded::text, m.sources,
    (m.own AND m.first = j.owner AND m.last = j.owner)::text,
    (k.plain AND k.first = j.owner AND k.last = j.owner AND k.spaces = j.owner)::text,
    (SELECT string_agg(t.tgname, ', ') FROM pg_trigger AS t
        WHERE t.tgrelid = j.oid AND NOT t.tgisinternal AND t.tgname <> '{TRIGGER}'),
    r.super::text, r.owners, r.may_make::text, r.strong, r.writers, r.schema_owners, m.may_call::text,
    session_user::text
FROM (SELECT count(*) AS found, min(nspname) AS schema, min(relowner) AS owner, min(oid) AS oid,
        min(nspowner) AS spaces, bool_and(guarded) AS guarded FROM jobs) AS j
CROSS JOIN (SELECT encode(sha256(convert_to(string_agg(prosrc, '' ORDER BY proname COLLATE "C"), 'UTF8')), 'hex')
            AS sources,
        bool_and(CASE WHEN proname = 'still' THEN NOT prosecdef AND proconfig IS NULL ELSE
            prosecdef AND proconfig IS NOT DISTINCT FROM ARRAY['search_path=pg_catalog, pg_temp'] END)
            AND count(*) = {len(FUNCTIONS)} AS own, min(proowner) AS first, max(proowner) AS last,
        bool_and(has_schema_privilege(session_user, pronamespace, 'USAGE')
            AND (proname = 'whole' OR has_function_privilege(session_user, p.oid, 'EXECUTE'))) AS may_call
    FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = '{SCHEMA}' AND p.proname IN ({_NAMES})) AS m
CROSS JOIN (SELECT bool_and(NOT relhastriggers AND NOT relhasrules AND relkind = 'r') AND count(*) = 2 AS plain,
        min(relowner) AS first, max(relowner) AS last, min(nspowner) AS spaces, min(c.oid) AS one, max(c.oid) AS other
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relname IN ('{RECEIPTS}', '{ALONE}')) AS k
CROSS JOIN LATERAL (SELECT bool_or(rolsuper) AS super, string_agg(rolname, ', ') FILTER (WHERE oid = j.owner) AS owners,
        bool_or(rolcreaterole) AND current_setting('server_version_num')::int < 160000 AS may_make,
        string_agg(rolname, ', ') FILTER (WHERE rolname IN
            ('pg_write_all_data', 'pg_execute_server_program', 'pg_write_server_files')) AS strong,
        string_agg(rolname, ', ') FILTER (WHERE has_table_privilege(oid, j.oid, {_WRITES})
            OR has_table_privilege(oid, k.one, {_WRITES}) OR has_table_privilege(oid, k.other, {_WRITES})) AS writers,
        string_agg(rolname, ', ') FILTER (WHERE oid = j.spaces) AS schema_owners
    FROM pg_roles WHERE pg_has_role(session_user, oid, 'MEMBER')) AS r
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
