"""`make scoreboard`: docs/reliability.md, every figure from a command that was run, with its date."""
