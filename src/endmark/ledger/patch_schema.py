"""The tables of the book for patches: decisions, the reviews they rest on, and the answers as they arrived.

A decision has one chain of events, which also holds what became of its reviews. As for attempts, every rule is a
trigger or a CHECK.
"""

from endmark.core.states import DECISION_MOVES, REVIEW_MOVES, Decision, Review
from endmark.ledger.rules import UNKNOWN_SIGNAL, illegal, rule, words

# Identity: what a decision is about. Written once, when it is opened.
DECISION_IDENTITY = (
    "n, decision_id, repository, ref, base, head, merge_tree, records_sha, diff_sha, policy_version, policy_sha256, "
    "required, submitter, opened_at"
)
DECISION_FACTS = "state, signal, evidence, detail, merged, approver, changed_at"
REVIEW_IDENTITY = "n, review_id, decision, reviewer, purpose, model, prompt_sha256, shown_sha256, asked_at"
REVIEW_FACTS = (
    "state, signal, received_bytes, expected_bytes, body_sha256, level, evidence, detail, blocking, advisory, "
    "answered_at"
)

_SHA = "CHECK (length({0}) = 64)"
_COUNT = "CHECK ({0} IS NULL OR (typeof({0}) = 'integer' AND {0} >= 0))"

TABLES = (
    f"""\
CREATE TABLE decisions (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    decision_id TEXT NOT NULL UNIQUE CHECK (decision_id GLOB 'dec_?*'),
    repository TEXT NOT NULL CHECK (repository <> ''),
    ref TEXT NOT NULL CHECK (ref GLOB 'refs/?*'),
    base TEXT NOT NULL CHECK (base <> ''),
    head TEXT NOT NULL CHECK (head <> ''),
    merge_tree TEXT,
    records_sha TEXT {_SHA.format("records_sha")},
    diff_sha TEXT {_SHA.format("diff_sha")},
    policy_version TEXT NOT NULL CHECK (policy_version <> ''),
    policy_sha256 TEXT NOT NULL {_SHA.format("policy_sha256")},
    required TEXT NOT NULL CHECK (json_array_length(required) > 0),
    submitter TEXT,
    opened_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (typeof(state) = 'text'),
    signal TEXT NOT NULL,
    evidence TEXT NOT NULL,
    detail TEXT NOT NULL,
    merged TEXT CHECK (merged <> ''),
    approver TEXT,
    changed_at TEXT NOT NULL,
    events INTEGER NOT NULL,
    chain BLOB NOT NULL CHECK (typeof(chain) = 'blob' AND length(chain) = 32),
    CONSTRAINT bound CHECK ((diff_sha IS NOT NULL AND merge_tree IS NOT NULL AND records_sha IS NOT NULL)
        OR state IN ({words(Decision.PENDING, Decision.INCOMPLETE)})),
    CONSTRAINT receipt CHECK ((merged IS NOT NULL) = (state = '{Decision.MERGED}'))
)""",
    "CREATE INDEX decisions_by_diff ON decisions (diff_sha, policy_sha256)",
    "CREATE INDEX decisions_by_state ON decisions (state)",
    "CREATE INDEX decisions_by_time ON decisions (changed_at)",
    f"""\
CREATE TABLE reviews (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    review_id TEXT NOT NULL UNIQUE CHECK (review_id <> ''),
    decision INTEGER NOT NULL REFERENCES decisions (n),
    reviewer TEXT NOT NULL CHECK (reviewer <> ''),
    purpose TEXT NOT NULL CHECK (purpose IN ('review', 'elsewhere', 'carried', 'replay', 'advice')),
    model TEXT,
    prompt_sha256 TEXT {_SHA.format("prompt_sha256")},
    shown_sha256 TEXT {_SHA.format("shown_sha256")},
    asked_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (typeof(state) = 'text'),
    signal TEXT,
    received_bytes INTEGER {_COUNT.format("received_bytes")},
    expected_bytes INTEGER {_COUNT.format("expected_bytes")},
    body_sha256 TEXT {_SHA.format("body_sha256")},
    level TEXT,
    evidence TEXT NOT NULL,
    detail TEXT NOT NULL,
    blocking INTEGER {_COUNT.format("blocking")},
    advisory INTEGER {_COUNT.format("advisory")},
    answered_at TEXT,
    CONSTRAINT answered CHECK (
        CASE WHEN state = '{Review.ASKED}' THEN signal IS NULL AND answered_at IS NULL
        ELSE signal IS NOT NULL AND answered_at IS NOT NULL AND received_bytes IS NOT NULL END),
    CONSTRAINT proven CHECK (
        state NOT IN ({words(Review.PASS, Review.FAIL)}) OR (signal = 'complete' AND body_sha256 IS NOT NULL)),
    CONSTRAINT consistent CHECK (state <> '{Review.PASS}' OR coalesce(blocking, 0) = 0)
)""",
    "CREATE INDEX reviews_by_decision ON reviews (decision)",
    "CREATE TABLE answers (review INTEGER PRIMARY KEY REFERENCES reviews (n), body BLOB NOT NULL)",
    "CREATE UNIQUE INDEX events_of_decisions ON events (decision, seq) WHERE decision IS NOT NULL",
)

_FAILED = (
    "EXISTS (SELECT 1 FROM decisions d JOIN reviews r ON r.decision = d.n\n"
    f"    WHERE d.diff_sha = NEW.diff_sha AND d.policy_sha256 = NEW.policy_sha256 AND r.state = '{Review.FAIL}'\n"
    "    AND r.purpose <> 'advice')"
)
_UNPASSED = (
    "EXISTS (SELECT 1 FROM json_each(NEW.required) AS wanted WHERE NOT EXISTS (SELECT 1 FROM reviews r\n"
    f"    WHERE r.decision = NEW.n AND r.reviewer = wanted.value AND r.state = '{Review.PASS}'\n"
    "    AND r.purpose <> 'advice'))"
)

TRIGGERS = (
    rule(
        "decisions_begin_pending",
        "a decision begins as pending, with one event and a known signal",
        "BEFORE INSERT ON decisions",
        f"NEW.state IS NOT '{Decision.PENDING}' OR NEW.events IS NOT 1 OR {UNKNOWN_SIGNAL}",
    ),
    rule(
        "decisions_are_not_overwritten",
        "a decision is never overwritten",
        "BEFORE INSERT ON decisions",
        "NEW.n > 0 AND EXISTS (SELECT 1 FROM decisions WHERE n = NEW.n)\n"
        "    OR EXISTS (SELECT 1 FROM decisions WHERE decision_id = NEW.decision_id)",
    ),
    rule(
        "decisions_are_numbered",
        "decisions are numbered without a gap",
        "AFTER INSERT ON decisions",
        "NEW.n IS NOT 1 AND NOT EXISTS (SELECT 1 FROM decisions WHERE n = NEW.n - 1)",
    ),
    rule("decisions_stay", "a decision is never deleted", "BEFORE DELETE ON decisions"),
    rule(
        "decision_identity_stays",
        "what a decision is about never changes",
        f"BEFORE UPDATE OF {DECISION_IDENTITY} ON decisions",
    ),
    rule(
        "decision_moves_are_legal",
        "not a legal move of a decision; facts change only with a move",
        f"BEFORE UPDATE OF {DECISION_FACTS} ON decisions",
        illegal(DECISION_MOVES),
    ),
    rule("decision_signals_are_known", "not a known signal", "BEFORE UPDATE OF signal ON decisions", UNKNOWN_SIGNAL),
    rule(
        "a_pass_needs_every_reviewer",
        "every required reviewer must have passed it, and no complete review of the same diff may have failed it",
        "BEFORE UPDATE OF state ON decisions",
        f"NEW.state IN ({words(Decision.PASS, Decision.MERGED)}) AND ({_FAILED}\n    OR {_UNPASSED})",
    ),
    rule(
        "decision_changes_have_their_event",
        "every change of a decision has its event",
        "BEFORE UPDATE ON decisions",
        "NEW.n IS NOT OLD.n OR NEW.events IS NOT OLD.events + 1 OR NOT EXISTS (\n"
        "    SELECT 1 FROM events WHERE decision = NEW.n AND seq = NEW.events AND hash = NEW.chain)",
    ),
    rule(
        "decision_events_continue",
        "an event continues the chain of its decision",
        "BEFORE INSERT ON events",
        "NEW.decision IS NOT NULL AND (\n"
        "    NEW.seq = 1 AND NOT EXISTS (SELECT 1 FROM decisions WHERE n = NEW.decision)\n"
        "    OR NEW.seq IS NOT 1 + coalesce((SELECT max(seq) FROM events WHERE decision = NEW.decision), 0))",
    ),
    rule(
        "reviews_begin_asked",
        "a review begins as asked, and is never overwritten",
        "BEFORE INSERT ON reviews",
        f"NEW.state IS NOT '{Review.ASKED}' OR NEW.n > 0 AND EXISTS (SELECT 1 FROM reviews WHERE n = NEW.n)\n"
        "    OR EXISTS (SELECT 1 FROM reviews WHERE review_id = NEW.review_id)\n"
        "    OR NOT EXISTS (SELECT 1 FROM decisions WHERE n = NEW.decision)",
    ),
    rule(
        "reviews_are_numbered",
        "reviews are numbered without a gap",
        "AFTER INSERT ON reviews",
        "NEW.n IS NOT 1 AND NOT EXISTS (SELECT 1 FROM reviews WHERE n = NEW.n - 1)",
    ),
    rule("reviews_stay", "a review is never deleted", "BEFORE DELETE ON reviews"),
    rule(
        "review_identity_stays",
        "how a reviewer was asked never changes",
        f"BEFORE UPDATE OF {REVIEW_IDENTITY} ON reviews",
    ),
    rule(
        "review_moves_are_legal",
        "not a legal move of a review; a finished review never moves",
        f"BEFORE UPDATE OF {REVIEW_FACTS} ON reviews",
        f"{illegal(REVIEW_MOVES)} OR {UNKNOWN_SIGNAL}",
    ),
    rule(
        "answers_come_once",
        "an answer is kept while its review is asked, once",
        "BEFORE INSERT ON answers",
        "EXISTS (SELECT 1 FROM answers WHERE review = NEW.review)\n"
        f"    OR NOT EXISTS (SELECT 1 FROM reviews WHERE n = NEW.review AND state = '{Review.ASKED}')",
    ),
    rule("answers_stay", "a kept answer is never deleted", "BEFORE DELETE ON answers"),
    rule("answers_never_change", "a kept answer never changes", "BEFORE UPDATE ON answers"),
)
