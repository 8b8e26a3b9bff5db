"""How much is proven: the four levels, and what each kind of proof says in a record."""

from enum import IntEnum


class Level(IntEnum):
    """What stands behind an acceptance, weakest first. `min_evidence` compares these."""

    BARE = 0
    WITNESS = 1
    SEALED = 2
    SIGNED = 3

    @property
    def word(self) -> str:
        """The spelling used in configuration and records."""
        return self.name.lower()


LEVELS: dict[str, Level] = {level.word: level for level in Level}

# What a record lists. A bare plan's digest covers its statements and nothing else; the record says so.
ENVELOPE = ("envelope-length", "envelope-sha256", "sentinel")
PLAN = ("stmt-count", "trailer", "statements-sha256")
WITNESS = ("count-before-statements", "trailer-last")
UNCOVERED = "digest-does-not-cover:job_id,after,retry_of,base"
RECEIPT_FOUND = "receipt-found"  # settled by the receipt in the target, not by the gate that wrote it
REVERTED = "reverted"  # applied once, undone since; `reverted-by:JOB` where the ledger knows by whom
# Of engines whose DDL commits by itself.
JOURNAL = "journal"  # the statements ran one by one, each with its line in the target's journal
UNREHEARSED = "unrehearsed"  # a single statement, and the account could make no copy of the schema to try it on
ONE_ACCOUNT = "one-account"  # who runs the statements could write the receipts; reading the statements prevents it
UNTRIED_SERVER = "untried-server"  # the gate was written for this server, and no test of it has seen one
ALONE = "outside-a-transaction"  # a single statement that the engine runs in no transaction; its outcome was looked at
UNDONE_BY_DOWNS = "undone-by-downs"  # what had run was undone by its downs, and the schema is the one from before
TARGET_GONE = "target-gone"  # closed by a person: nobody can say any more what became of it
REHEARSED = "rehearsed"  # it ran where nothing stays first, and left the schema that it left then
FOUND_IN_REHEARSAL = "found-in-rehearsal"  # declined by what was found there; the target was not touched
RESTORED = "reverted-by:restore"  # the target's file is the one from before it
REVIEW_NONE = "review-none"  # its target asked for no review when the service took it: a worker may apply it
