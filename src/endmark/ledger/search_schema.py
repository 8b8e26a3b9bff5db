"""Indexes for what is asked of a book with many decisions: those of a branch, of a head, of a commit.

The fourth version of the book. `n`, the order they are shown in, ends an index of SQLite by itself.
"""

INDEXES = (
    "CREATE INDEX decisions_by_branch ON decisions (repository, ref, state)",
    "CREATE INDEX decisions_by_repository ON decisions (repository, state)",
    "CREATE INDEX decisions_by_ref ON decisions (ref, state)",
    "CREATE INDEX decisions_by_head ON decisions (head)",
    "CREATE INDEX decisions_by_commit ON decisions (merged) WHERE merged IS NOT NULL",
)
