"""A second reader of spec/, slow and plain, that shares nothing with endmark. Where the two differ, one is wrong."""

import hashlib
import math
from typing import Any

CAP = 64 * 1024 * 1024
SPACE = b" \t\r\n"
HEX = b"0123456789abcdef"


class No(Exception):
    """A refusal, by the word of its signal."""


# --- json.md


class Text:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0
        self.faults: set[str] = set()

    def peek(self) -> bytes:
        return self.raw[self.at : self.at + 1]

    def space(self) -> None:
        while self.peek() and self.peek() in SPACE:
            self.at += 1

    def take(self, word: bytes) -> bool:
        if self.raw[self.at : self.at + len(word)] == word:
            self.at += len(word)
            return True
        return False

    def need(self, word: bytes) -> None:
        if not self.take(word):
            raise No("not-json")

    def value(self) -> Any:
        first = self.peek()
        if first == b"{":
            return self.object()
        if first == b"[":
            return self.array()
        if first == b'"':
            return self.string()
        for word, value in ((b"true", True), (b"false", False), (b"null", None)):
            if self.take(word):
                return value
        for word in (b"NaN", b"Infinity", b"-Infinity"):
            if self.take(word):
                self.faults.add("not-finite")
                return 0.0
        return self.number()

    def object(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self.need(b"{")
        self.space()
        if self.take(b"}"):
            return made
        while True:
            self.space()
            key = self.string()
            self.space()
            self.need(b":")
            self.space()
            value = self.value()
            if key in made:
                self.faults.add("duplicate-key")
            made[key] = value
            self.space()
            if self.take(b"}"):
                return made
            self.need(b",")

    def array(self) -> list[Any]:
        made: list[Any] = []
        self.need(b"[")
        self.space()
        if self.take(b"]"):
            return made
        while True:
            self.space()
            made.append(self.value())
            self.space()
            if self.take(b"]"):
                return made
            self.need(b",")

    def digits(self) -> bytes:
        begin = self.at
        while self.peek() and self.peek() in b"0123456789":
            self.at += 1
        if begin == self.at:
            raise No("not-json")
        return self.raw[begin : self.at]

    def number(self) -> int | float:
        begin, whole = self.at, True
        self.take(b"-")
        if not self.take(b"0"):
            self.digits()
        if self.peek() == b".":
            self.at += 1
            self.digits()
            whole = False
        if self.peek() and self.peek() in b"eE":
            self.at += 1
            if not self.take(b"+"):
                self.take(b"-")
            self.digits()
            whole = False
        spelled = self.raw[begin : self.at].decode()
        if not whole:
            if math.isinf(float(spelled)):
                self.faults.add("not-finite")
            return float(spelled)
        if len(spelled) > 20 or not -(2**63) <= int(spelled) < 2**63:
            self.faults.add("integer-size")
            return 0
        return int(spelled)

    def string(self) -> str:
        self.need(b'"')
        made: list[str] = []
        high = 0  # a high half that an escape spelled just before
        while not self.take(b'"'):
            if not self.peek() or self.peek() < b" ":
                raise No("not-json")
            if not self.take(b"\\"):
                high = self.half(high, made)
                made.append(self.character())
                continue
            if not self.take(b"u"):
                letter = self.peek()
                if not letter or letter not in b'"\\/bfnrt':
                    raise No("not-json")
                self.at += 1
                high = self.half(high, made)
                made.append({b"b": "\b", b"f": "\f", b"n": "\n", b"r": "\r", b"t": "\t"}.get(letter, letter.decode()))
                continue
            four = self.raw[self.at : self.at + 4]
            if len(four) < 4 or any(byte not in HEX for byte in four.lower()):
                raise No("not-json")
            self.at += 4
            code = int(four, 16)
            if high and 0xDC00 <= code <= 0xDFFF:
                made.append(chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)))
                high = 0
                continue
            high = self.half(high, made)
            if 0xD800 <= code <= 0xDBFF:
                high = code
                continue
            if 0xDC00 <= code <= 0xDFFF:
                self.faults.add("lone-surrogate")
            made.append(chr(code))
        self.half(high, made)
        return "".join(made)

    def half(self, high: int, made: list[str]) -> int:
        if high:
            self.faults.add("lone-surrogate")
            made.append(chr(high))
        return 0

    def character(self) -> str:
        for length in (1, 2, 3, 4):
            try:
                made = self.raw[self.at : self.at + length].decode()
            except UnicodeDecodeError:
                continue
            self.at += length
            return made
        raise No("not-json")


def strict(raw: bytes) -> dict[str, Any]:
    depth, in_string, at = 0, False, 0
    while at < len(raw):
        byte = raw[at : at + 1]
        if byte == b"\\":
            at += 1
        elif byte == b'"':
            in_string = not in_string
        elif not in_string and byte in b"[{":
            depth += 1
            if depth == 65:
                raise No("too-deep")
        elif not in_string and byte in b"]}":
            depth -= 1
        at += 1
    text = Text(raw)
    text.space()
    value = text.value()
    text.space()
    if text.at < len(raw):
        raise No("two-documents" if isinstance(value, dict) else "not-json")
    if not isinstance(value, dict):
        raise No("not-an-object")
    for fault in ("duplicate-key", "not-finite", "integer-size", "lone-surrogate"):
        if fault in text.faults:
            raise No(fault)
    return value


# --- mc1.md


def header(raw: bytes) -> tuple[int, int, bytes]:
    """Where the body begins, how long it is, and its digest."""
    at = 0

    def next_in(allowed: bytes) -> bytes:
        nonlocal at
        if at == len(raw):
            raise No("header-cut")
        if raw[at] not in allowed:
            raise No("bad-header")
        at += 1
        return raw[at - 1 : at]

    for byte in b"MC1 ":
        next_in(bytes([byte]))
    length = next_in(b"123456789")
    while raw[at : at + 1] != b" ":
        length += next_in(b"0123456789" if len(length) < 10 else b" ")
    next_in(b" ")
    digest = b"".join(next_in(HEX) for _ in range(64))
    next_in(b"\n")
    return at, int(length), digest


def unseal(raw: bytes, cap: int) -> bytes:
    begin, length, digest = header(raw)
    body = raw[begin:]
    if length > cap:
        raise No("over-cap")
    if len(body) < length:
        raise No("body-cut")
    if not body[:length].endswith(b"\nEND\n"):
        raise No("no-sentinel")
    if len(body) > length:
        raise No("bytes-after-end")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise No("envelope-digest")
    return body[:-5]


# --- plan.md and verdict.md


def is_id(value: Any) -> bool:
    allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
    return isinstance(value, str) and 1 <= len(value) <= 128 and all(letter in allowed for letter in value)


def is_hex(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and all(letter in "0123456789abcdef" for letter in value)


def says_nothing(statement: str) -> bool:
    at = 0
    while at < len(statement):
        if statement[at] in " \t\n\v\f\r;":
            at += 1
        elif statement[at : at + 2] == "--":
            while at < len(statement) and statement[at] != "\n":
                at += 1
        elif statement[at : at + 2] == "/*":
            at += 2
            while at < len(statement) and statement[at : at + 2] != "*/":
                at += 1
            at += 2
        else:
            return False
    return True


def check_list(value: Any) -> None:
    if not isinstance(value, list):
        raise No("wrong-type")
    if not value:
        raise No("wrong-value")
    for item in value:
        if not isinstance(item, str):
            raise No("wrong-type")
    for item in value:
        if says_nothing(item):
            raise No("blank-statement")
        if "\0" in item:
            raise No("wrong-value")


def check_keys(found: dict[str, Any], required: str, optional: str) -> None:
    if set(found) - set(required.split()) - set(optional.split()):
        raise No("unknown-key")
    if set(required.split()) - set(found):
        raise No("missing-key")


def check_common(found: dict[str, Any]) -> None:
    if not is_id(found["job_id"]):
        raise No("bad-id")
    check_list(found["statements"])
    if type(found["stmt_count"]) is not int:
        raise No("wrong-type")
    if found["stmt_count"] != len(found["statements"]):
        raise No("wrong-count")
    if "down" in found:
        check_list(found["down"])
        if len(found["down"]) != len(found["statements"]):
            raise No("wrong-count")
    if "retry_of" in found and (not is_id(found["retry_of"]) or found["retry_of"] == found["job_id"]):
        raise No("bad-id")
    if "after" in found:
        after = found["after"]
        if not isinstance(after, list):
            raise No("wrong-type")
        if not after:
            raise No("wrong-value")
        if not all(map(is_id, after)) or len(set(after)) < len(after) or found["job_id"] in after:
            raise No("bad-id")
    if "base" in found and not is_hex(found["base"]):
        raise No("wrong-value")


def digest(statements: list[str]) -> str:
    return hashlib.sha256("\n".join(statements).encode()).hexdigest()


def plan(found: dict[str, Any]) -> None:
    if found.get("trailer") != "END_APPLY":
        raise No("no-trailer")
    check_keys(found, "tool job_id stmt_count sha256 statements trailer", "after retry_of base down down_sha256")
    if found["tool"] != "apply_schema":
        raise No("wrong-value")
    if ("down" in found) != ("down_sha256" in found):
        raise No("missing-key")
    if not is_hex(found["sha256"]) or not is_hex(found.get("down_sha256", "0" * 64)):
        raise No("wrong-value")
    check_common(found)
    if found["sha256"] != digest(found["statements"]):
        raise No("statements-digest")
    if "down" in found and found["down_sha256"] != digest(found["down"]):
        raise No("down-digest")


def witness(found: dict[str, Any]) -> None:
    if found.get("trailer") != "END_APPLY":
        raise No("no-trailer")
    order = list(found)
    if order[-1] != "trailer":
        raise No("trailer-not-last")
    if "stmt_count" not in order or "stmt_count" in order[order.index("statements") if "statements" in order else 99 :]:
        raise No("count-not-first")
    check_keys(found, "job_id stmt_count statements trailer", "after retry_of base down")
    check_common(found)


def verdict(found: dict[str, Any], marks: list[str] | None = None) -> None:
    if "marks" in found and list(found)[-1] != "marks":
        raise No("marks")
    if marks is not None and found.get("marks") != marks:
        raise No("marks")
    check_keys(found, "verdict diff_sha policy_version", "findings marks")
    if found["verdict"] not in ("pass", "fail"):
        raise No("wrong-value")
    for key in ("diff_sha", "policy_version"):
        if not isinstance(found[key], str) or not found[key]:
            raise No("wrong-type")
    if "findings" in found:
        check_findings(found["findings"])
        if found["verdict"] == "pass" and any(one["severity"] == "blocking" for one in found["findings"]):
            raise No("contradiction")
    if "marks" in found:
        echoed = found["marks"]
        if not isinstance(echoed, list) or not echoed or not all(isinstance(m, str) and m for m in echoed):
            raise No("wrong-type")


def check_findings(findings: Any) -> None:
    if not isinstance(findings, list):
        raise No("wrong-type")
    for one in findings:
        if not isinstance(one, dict) or not {"severity", "path", "message"} <= set(one):
            raise No("wrong-type")
        if set(one) - {"severity", "path", "message", "line"} or one["severity"] not in ("blocking", "advisory"):
            raise No("wrong-type")
        if type(one["path"]) is not str or type(one["message"]) is not str:
            raise No("wrong-type")
        if one.get("line") is not None and type(one["line"]) is not int:
            raise No("wrong-type")
    for one in findings:
        if not one["path"] or not one["message"] or (one.get("line") is not None and one["line"] < 1):
            raise No("wrong-value")


def sets_out_to_be_a_plan(found: dict[str, Any]) -> bool:
    return (
        "statements" in found
        or "stmt_count" in found
        or found.get("tool") == "apply_schema"
        or ("trailer" in found and "tool" not in found)
    )


def read(raw: bytes, cap: int = CAP) -> tuple[str, dict[str, Any]]:
    """The form that bytes have, and the object they spell. Raises No."""
    if not raw:
        raise No("empty")
    if raw[:1] == b"M":
        found = strict(unseal(raw, cap))
        if sets_out_to_be_a_plan(found):
            plan(found)
            return "plan", found
        if "verdict" in found:
            verdict(found)
            return "verdict", found
        return "body", found
    if len(raw) > cap:
        raise No("over-cap")
    found = strict(raw)
    if "verdict" in found and not sets_out_to_be_a_plan(found):
        raise No("no-envelope")
    if "tool" in found or "sha256" in found:
        plan(found)
        return "plan", found
    witness(found)
    return "witness", found
