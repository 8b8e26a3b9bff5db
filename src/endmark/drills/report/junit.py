"""The report as JUnit XML, as CI systems show it: one test case a family of faults, and one for the control."""

from xml.sax.saxutils import escape, quoteattr

from endmark.core.printable import safe
from endmark.drills.report.document import Report
from endmark.drills.targets.answer import Answer

_MOST = 200  # faults listed of one family


def dumps(report: Report) -> bytes:
    """The whole file. A family with holes fails; one that is inconclusive, or was not tried to its end, errs."""
    swept = report.swept
    cases, failures, errors = [], 0, 0
    control_fails = swept.control != "accepted"
    errors += control_fails
    fault = f"<error message={_attribute(f'the whole payload: {swept.control}')}/>" if control_fails else ""
    cases.append(_case(swept.target, "the whole payload is accepted", fault))
    for at, family in enumerate(swept.families):
        cells = swept.cells[at]
        holes = [number for number, letter in enumerate(cells) if letter in b"AE"]
        unsure = cells.count(Answer.INCONCLUSIVE.value.encode()) + cells.count(Answer.NOT_TRIED.value.encode())
        inside = ""
        if holes:
            failures += 1
            listed = "\n".join(str(family.fault(swept.body, number)) for number in holes[:_MOST])
            more = f"\nand {len(holes) - _MOST:,} more" if len(holes) > _MOST else ""
            said = f'message="{len(holes)} holes in {len(cells)} faults"'
            inside = f"<failure {said}>{escape(_lines(listed + more))}</failure>"
        elif unsure:
            errors += 1
            inside = f'<error message="{unsure} of {len(cells)} faults inconclusive or not tried"/>'
        cases.append(_case(swept.target, family.spec, inside))
    head = f'tests="{len(cases)}" failures="{failures}" errors="{errors}" time="{swept.seconds:.3f}"'
    suite = f'<testsuite name="endmark drill" {head}>\n{"".join(cases)}</testsuite>'
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {head}>\n{suite}\n</testsuites>\n'
    return text.encode("ascii", "xmlcharrefreplace")


def _lines(text: str) -> str:
    """Safe to print, line by line."""
    return "\n".join(map(safe, text.splitlines()))


def _case(target: str, name: str, inside: str) -> str:
    return f"  <testcase classname={_attribute(target)} name={_attribute(name)}>{inside}</testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(safe(text))
