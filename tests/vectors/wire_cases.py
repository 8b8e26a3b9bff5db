"""What the scripts of the wires' vectors share: remembering a vector, and server-sent events."""

import json

CASES: dict[str, bytes] = {}


def case(path, expect, raw, comment, rule, **more):
    """Remember one vector. `expect` is a signal, or a dictionary that says what the answer holds."""
    raw = raw.encode() if isinstance(raw, str) else raw
    lines = {"expect": expect if isinstance(expect, str) else "answer", "comment": comment, "rule": rule}
    lines |= {"wire": more.pop("wire", path.partition("/")[0]), "ending": more.pop("ending", "last-chunk")}
    lines |= {"received": len(raw)} | {key.replace("_", "-"): value for key, value in more.items()}
    if not isinstance(expect, str):
        lines["answer"] = dump(expect)
    assert path not in CASES, path
    CASES[path] = "".join(f"{key}: {value}\n" for key, value in lines.items()).encode() + b"\n" + raw


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def answer(text="", calls=(), reason="stop"):
    """What a reader must hand over; a call is its name, id and arguments."""
    return {"text": text, "calls": [list(call) for call in calls], "stop_reason": reason}


def events(*documents, named=False):
    """Server-sent events; a text stands for itself."""
    made = []
    for document in documents:
        name = f"event: {document['type']}\n" if named and isinstance(document, dict) else ""
        made.append(f"{name}data: {document if isinstance(document, str) else dump(document)}\n\n")
    return "".join(made)
