"""The payloads that are drilled: `python -m bench.scoreboard.bodies` writes them into build/scoreboard."""

from tests.core import payloads

from bench.scoreboard.rows import PLACE, PLAN, VERDICT

FINDINGS = [
    {"severity": "advisory", "path": f"src/{n}.py", "line": n + 1, "message": "é could be shorter"} for n in range(9)
]


def main() -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    PLAN.write_bytes(payloads.of_size(3_400))
    VERDICT.write_bytes(payloads.envelope(payloads.dump(payloads.verdict(findings=FINDINGS, marks=["m1", "m2"]))))


if __name__ == "__main__":
    main()
