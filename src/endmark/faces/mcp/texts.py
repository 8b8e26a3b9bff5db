"""What an agent is told: instructions, the tools and their arguments.

Hosts cut a description after 2,048 characters without saying so; each text here is shorter, in bytes too.
"""

from typing import Any

from endmark.core import tooldef
from endmark.core.evidence import Level
from endmark.faces.mcp.settings import Settings

LONGEST = 2048
"""What hosts keep of one text, in characters; here also its limit in bytes of UTF-8."""

APPLY, FILE, STATUS, VERDICT = "apply_schema", "apply_schema_file", "job_status", "submit_verdict"

INSTRUCTIONS = """\
endmark lets a plan of SQL statements, or a reviewer's verdict, have an effect only after it is proven to have arrived \
whole.

- Nothing happened until an answer says `applied`. A closed stream, a timeout or silence is not success.
- Prefer apply_schema_file: write the whole plan to a file, then hand over its path. Hosts cut long arguments.
- A missing trailer, digest or sentinel means that the payload was cut. It is never a hint to continue from there: \
never append, never add a closing brace, a default or a trailer to what arrived without one.
- truncated, quarantined, rejected, incomplete: nothing was written. Send the whole again under a new job_id; if it \
was cut, send several smaller plans.
- A job_id is used once. The same id with the same bytes answers what is on record and does nothing.
- Write the keys in this order: job_id, stmt_count, statements, and last of all "trailer": "END_APPLY". Count the \
statements before you write them.
- One statement an entry, without BEGIN, COMMIT, ROLLBACK, SAVEPOINT or ATTACH. Never write to schema_jobs or \
endmark_receipts.
- You cannot compute SHA-256: write neither `sha256` nor an MC1 header. `endmark seal` makes them.
- `staged` waits for a person, who approves outside of your reach. Do not send it again, do not look for another road; \
ask job_status now and then, and tell the person that it waits.
- `running` or `unknown`: ask job_status before you do anything else."""

_REFUSED = (
    " If it is refused nothing was written: send the whole again under a new job_id, never a continuation, and never "
    "append to what was sent."
)
_FILE = (
    "Preferred. Hand over a plan of SQL statements as a file: all of them are applied in one transaction, or none. "
    "Write the whole file first, then call with its path, seen from the folder that this server takes plans from. It "
    "may hold an MC1 envelope ('endmark seal FILE' makes one) or the JSON text of a plan whose last key is "
    f'"trailer": "END_APPLY".{_REFUSED}'
)
_STATUS = (
    "What is on record of a job: its state, byte counts and what to do next. Ask after `staged`, `running` or "
    "`unknown`, at most every few seconds. It changes nothing."
)
_VERDICT = (
    "Decide by a reviewer's verdict on merging `head` into `base`. Pass the verdict's whole MC1 envelope as one "
    "string, unchanged to its last byte. What is cut, or bound to another change, is recorded as incomplete "
    "and blocks. Nothing is merged by this. If it is refused ask the reviewer anew, and send the whole; never append "
    "to a cut one."
)
_WAITS = " The job then waits for a person; the answer says `staged`, and job_status what became of it."


def tools(settings: Settings) -> list[dict[str, Any]]:
    """The tools that `settings` open, each with name, description and the schema of its arguments."""
    made = [_tool(STATUS, _STATUS, {"job_id": "The job's id; for a verdict the decision_id of its answer."})]
    if settings.place is not None:
        waits = "" if settings.immediate else _WAITS
        apply = tooldef.tool("mcp")
        level = settings.place.options.min_evidence
        demand = f" {_demand(level)}" if level > Level.WITNESS else ""
        # Its own fields are those that `endmark tool --for mcp` prints.
        made = [
            _tool(FILE, _FILE + demand + waits, {"path": "The plan's file."}),
            {**apply, "description": apply["description"] + _REFUSED + demand + waits},
            *made,
        ]
    if settings.repository is not None:
        names = {
            "verdict": "The whole MC1 envelope of the verdict: header, body and END.",
            "base": "What is merged into: a branch or a full commit id.",
            "head": "What is merged: a branch or a full commit id.",
        }
        optional = {"reviewer": "Whose verdict it is, where the branch asks several."}
        made.append(_tool(VERDICT, _VERDICT, names, optional))
    return made


def _demand(level: Level) -> str:
    return (
        f"This server takes plans that are {level.word}: an MC1 envelope made by 'endmark seal' where the plan was "
        "written. Without one, ask the person who runs it."
    )


def _tool(
    name: str, description: str, required: dict[str, str], optional: dict[str, str] | None = None
) -> dict[str, Any]:
    texts = {key: {"type": "string", "description": said} for key, said in {**required, **(optional or {})}.items()}
    schema = {
        "type": "object",
        "properties": texts,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "inputSchema": schema}
