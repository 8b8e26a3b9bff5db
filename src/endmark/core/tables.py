"""Which top-level key of endmark.toml belongs to whom: one file, two readers, each strict about its own."""

SETTINGS = ("alerts", "ledger", "mcp", "merge", "queue", "repositories", "service", "targets", "trusted_keys")
"""Read by the caller of endmark, from the working folder."""

POLICY = ("branches", "reviewers")
"""Read by the patch gate, from the base commit or a path on its server."""
