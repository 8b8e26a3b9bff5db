"""What tells this database from another that may come to stand at the same address."""

from endmark.effects.postgres.channel import Step

# The cluster's own number, made by chance when it was (empty where the role may not read it), and the database's.
ASK = Step(
    b"""SELECT oid::text, CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE')
THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END
FROM pg_database WHERE datname = current_database()"""
)
