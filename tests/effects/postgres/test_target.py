"""One plan on a real server: all of it with its receipt, or nothing."""

from tests.effects.postgres.plans import ELEVEN


def test_a_plan_is_applied_whole_with_its_receipt(database):
    before = database.fingerprint()
    ran = database.run(ELEVEN, "billing-1")
    assert ran.rows_changed == (0, 0, 0, 0, 0, 4, 5, 5, 9, 0, 0)
    receipt = database.receipt("billing-1")
    assert (receipt.status, receipt.stmt_count, receipt.statements_run) == ("applied", 11, 11)
    assert receipt.rows_changed == "0 0 0 0 0 4 5 5 9 0 0"
    assert receipt.fingerprint_after == ran.fingerprint_after == database.fingerprint() != before
    assert database.query("SELECT count(*) FROM invoice_lines") == [(9,)]
