"""The indexes of `endmark.ledger.search_schema`, spelled as the catalogue spells them, so that an audit can compare."""

INDEXES = (
    "CREATE INDEX decisions_by_branch ON @.decisions USING btree (repository, ref, state, n)",
    "CREATE INDEX decisions_by_repository ON @.decisions USING btree (repository, state, n)",
    "CREATE INDEX decisions_by_ref ON @.decisions USING btree (ref, state, n)",
    "CREATE INDEX decisions_by_head ON @.decisions USING btree (head)",
    "CREATE INDEX decisions_by_commit ON @.decisions USING btree (merged) WHERE (merged IS NOT NULL)",
)
