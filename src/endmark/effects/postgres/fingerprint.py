"""The schema's fingerprint: 64 hex over what stands in the catalogs, equal for two databases of equal schema.

In: every schema that is not PostgreSQL's; tables, views, columns in their order, defaults, constraints, indexes, rules,
triggers and whether they are enabled, row security and its policies, sequences' definitions, functions, types, enum
values in their order, domains, statistics; extensions and their versions instead of what they brought.
Out: rows, sequences' present values, owners, grants, comments, tablespaces, column options other than n_distinct (some
servers count in them), names of PostgreSQL's own making, and what endmark keeps. Roles belong to the server and not to
the database, so owners and grants would make equal schemas differ.
"""

import secrets

from endmark.effects.postgres.channel import Step
from endmark.effects.postgres.functions import SCHEMA, WHOLE


def _no_extension(catalog: str, oid: str) -> str:
    return f"{oid} NOT IN (SELECT objid FROM brought WHERE classid = '{catalog}'::regclass)"


_LINES = f"""
WITH brought AS MATERIALIZED (SELECT classid, objid FROM pg_depend WHERE deptype = 'e'),
space AS MATERIALIZED (SELECT oid, quote_ident(nspname) AS name FROM pg_namespace
    WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND nspname <> '{SCHEMA}'),
rel AS MATERIALIZED (SELECT c.oid, s.name || '.' || quote_ident(c.relname) AS name, c.relkind, c.relpersistence,
        c.relrowsecurity, c.relforcerowsecurity, c.relispartition, c.relreplident, c.reloptions, c.relpartbound,
        c.reloftype, c.relam
    FROM pg_class AS c JOIN space AS s ON s.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c', 'S')
        AND c.oid NOT IN (SELECT tgrelid FROM pg_trigger WHERE tgfoid IN {WHOLE})
        AND {_no_extension("pg_class", "c.oid")}),
lines (line) AS (
SELECT ROW('schema', name)::text FROM space WHERE {_no_extension("pg_namespace", "oid")}
UNION ALL
SELECT ROW('extension', extname, extversion)::text FROM pg_extension
UNION ALL
SELECT ROW('relation', name, relkind, relpersistence, relrowsecurity, relforcerowsecurity, relreplident,
        reloptions, pg_get_expr(relpartbound, oid), nullif(reloftype, 0)::regtype,
        CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(oid) WHEN relkind = 'p' THEN pg_get_partkeydef(oid) END,
        (SELECT string_agg(inhparent::regclass::text || CASE WHEN inhdetachpending THEN ' pending' ELSE '' END, ','
            ORDER BY inhseqno) FROM pg_inherits WHERE inhrelid = rel.oid),
        (SELECT ROW(seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle)::text
            FROM pg_sequence WHERE seqrelid = rel.oid AND rel.relkind = 'S'),
        (SELECT string_agg(ROW(attrelid::regclass, attname, deptype)::text, ',') FROM pg_depend JOIN pg_attribute
            ON attrelid = refobjid AND attnum = refobjsubid WHERE rel.relkind = 'S' AND classid = 'pg_class'::regclass
            AND objid = rel.oid AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')),
        (SELECT amname FROM pg_am WHERE pg_am.oid = relam AND rel.relkind <> 'S' AND amname <> 'heap'))::text FROM rel
UNION ALL
SELECT ROW('column', rel.name, row_number() OVER (PARTITION BY attrelid ORDER BY attnum),
        quote_ident(attname), format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attislocal,
        CASE WHEN attoptions::text LIKE '%n_distinct%' THEN (SELECT string_agg(o, ',' ORDER BY o)
            FROM unnest(attoptions) AS o WHERE o LIKE 'n_distinct%') END,
        CASE WHEN attcollation <> t.typcollation THEN attcollation::regcollation END,
        pg_get_expr(adbin, adrelid))::text
    FROM pg_attribute AS a JOIN rel ON rel.oid = attrelid AND rel.relkind <> 'S' JOIN pg_type AS t ON t.oid = atttypid
    LEFT JOIN pg_attrdef AS d ON d.adrelid = attrelid AND d.adnum = attnum
    WHERE attnum > 0 AND NOT attisdropped
UNION ALL
SELECT ROW('constraint', rel.name, quote_ident(conname), contype, pg_get_constraintdef(c.oid), convalidated)::text
    FROM pg_constraint AS c JOIN rel ON rel.oid = conrelid
UNION ALL
SELECT ROW('index', pg_get_indexdef(indexrelid), indisvalid, indisclustered, indisreplident)::text
    FROM pg_index JOIN rel ON rel.oid = indrelid
UNION ALL
SELECT ROW('trigger', pg_get_triggerdef(t.oid), tgenabled)::text FROM pg_trigger AS t JOIN rel ON rel.oid = tgrelid
    WHERE NOT tgisinternal
UNION ALL
SELECT ROW('rule', pg_get_ruledef(r.oid), ev_enabled)::text FROM pg_rewrite AS r JOIN rel ON rel.oid = ev_class
    WHERE rulename <> '_RETURN'
UNION ALL
SELECT ROW('policy', rel.name, quote_ident(polname), polcmd, polpermissive,
        (SELECT string_agg(quote_ident(rolname), ',' ORDER BY rolname COLLATE "C") FROM pg_roles
            WHERE oid = ANY (polroles)),
        pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))::text
    FROM pg_policy JOIN rel ON rel.oid = polrelid
UNION ALL
SELECT ROW('statistics', pg_get_statisticsobjdef(s.oid))::text FROM pg_statistic_ext AS s
    JOIN rel ON rel.oid = stxrelid
UNION ALL
SELECT ROW('function', CASE WHEN prokind = 'a' THEN ROW(p.oid::regprocedure, prorettype::regtype,
        (SELECT ROW(aggtransfn, aggfinalfn, aggcombinefn, aggtranstype::regtype, agginitval, aggkind)::text
            FROM pg_aggregate WHERE aggfnoid = p.oid))::text ELSE pg_get_functiondef(p.oid) END)::text
    FROM pg_proc AS p JOIN space AS s ON s.oid = pronamespace WHERE {_no_extension("pg_proc", "p.oid")}
UNION ALL
SELECT ROW('type', s.name || '.' || quote_ident(typname), typtype, typnotnull, typdefault,
        CASE WHEN typtype = 'd' THEN format_type(typbasetype, typtypmod) END,
        (SELECT string_agg(quote_literal(enumlabel), ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid),
        (SELECT string_agg(quote_ident(conname) || ' ' || pg_get_constraintdef(c.oid), ',' ORDER BY conname COLLATE "C")
            FROM pg_constraint AS c WHERE contypid = t.oid),
        (SELECT ROW(rngsubtype::regtype, rngcollation::regcollation, rngcanonical, rngsubdiff)::text
            FROM pg_range WHERE rngtypid = t.oid))::text
    FROM pg_type AS t JOIN space AS s ON s.oid = typnamespace
    WHERE typtype IN ('b', 'd', 'e', 'r') AND typcategory <> 'A' AND {_no_extension("pg_type", "t.oid")}
UNION ALL
SELECT ROW('operator', o.oid::regoperator, oprcode, oprresult::regtype)::text
    FROM pg_operator AS o JOIN space AS s ON s.oid = oprnamespace WHERE {_no_extension("pg_operator", "o.oid")})
"""
_DIGEST = """
SELECT encode(sha256(convert_to('endmark-fingerprint-postgres-1' || chr(10) || coalesce(
    string_agg(length(line) || ':' || line || ',', '' ORDER BY line COLLATE "C"), ''), 'UTF8')), 'hex') FROM lines
"""
# Asked with search_path = pg_catalog, so that every name is printed with its schema.
ASK = Step((_LINES + _DIGEST).encode())
# The same without indexes.
REST = Step((_LINES + _DIGEST + " WHERE line NOT LIKE '(index,%'").encode())
# What it is over, line by line.
LINES = Step(f'{_LINES} SELECT line FROM lines ORDER BY line COLLATE "C"'.encode())


class Kept:
    """The question as one connection keeps it, parsed and planned once: it is asked again after the plan has run.

    A plan can make the server forget it, and keep another by its name; but a plan speaks SQL alone, and the server
    knows which statements came so.
    """

    def __init__(self) -> None:
        name = b"endmark_" + secrets.token_hex(8).encode()  # a pooler's connection may have had one before
        self.keep = Step(ASK.sql, keeps=name)
        self.ask = Step(b"", kept=name)
        self.is_ours = Step(_IS_OURS, (name.decode(), ASK.sql.decode()))


_IS_OURS = (
    b"SELECT (count(*) = 1)::text FROM pg_prepared_statements WHERE name = $1 AND NOT from_sql AND statement = $2"
)
