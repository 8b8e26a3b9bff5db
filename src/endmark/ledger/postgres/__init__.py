"""The same book in a schema of a PostgreSQL database: many writers on many machines, the same rules in its SQL."""
