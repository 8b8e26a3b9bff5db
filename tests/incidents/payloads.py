"""What a call says, as each of the forms a plan has."""

import hashlib
import json
from collections.abc import Sequence

import endmark

BARE_ORDER = ("tool", "job_id", "stmt_count", "sha256", "statements", "trailer")
# Legal as well, and the kindest to a cut: all the proof stands before the part that is lost.
PROOF_FIRST = ("tool", "trailer", "sha256", "stmt_count", "job_id", "statements")


def compact(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def witness(job_id: str, statements: Sequence[str], **more: object) -> bytes:
    """What a model writes: the count before, the trailer last of all."""
    return compact(
        {
            "job_id": job_id,
            **more,
            "stmt_count": len(statements),
            "statements": list(statements),
            "trailer": "END_APPLY",
        }
    )


def bare(job_id: str, statements: Sequence[str], order: Sequence[str] = BARE_ORDER) -> bytes:
    """A plan with the digest of its statements, in no envelope."""
    document = {
        "tool": "apply_schema",
        "job_id": job_id,
        "stmt_count": len(statements),
        "sha256": hashlib.sha256("\n".join(statements).encode()).hexdigest(),
        "statements": list(statements),
        "trailer": "END_APPLY",
    }
    return compact({key: document[key] for key in order})


def envelope(job_id: str, statements: Sequence[str], **more: object) -> bytes:
    """The sealed plan."""
    return endmark.seal(witness(job_id, statements, **more))


def in_envelope(text: bytes) -> bytes:
    """Any text in an envelope whose length and digest are right, as a sealer makes it that looks at nothing."""
    body = text + b"\nEND\n"
    return b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode(), body)


def forms(job_id: str, statements: Sequence[str]) -> dict[str, bytes]:
    """The same call in each form; ids differ, because an id belongs to one body."""
    return {
        "witness": witness(job_id, statements),
        "plan": bare(f"{job_id}.plan", statements),
        "proof-first": bare(f"{job_id}.first", statements, PROOF_FIRST),
        "envelope": envelope(f"{job_id}.mc1", statements),
    }


def quote(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def write_file(path: str, content: str) -> str:
    """A file write, as a statement: rows of the table `files` stand for files."""
    return f"INSERT INTO files (path, content) VALUES ({quote(path)}, {quote(content)})"


def edit_file(path: str, old: str, new: str) -> str:
    """An edit that fits only where the file reads `old`: elsewhere the content would be NULL, which is forbidden."""
    return f"UPDATE files SET content = (SELECT {quote(new)} WHERE content = {quote(old)}) WHERE path = {quote(path)}"
