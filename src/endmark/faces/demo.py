"""The README's first command: what is cut is refused, what is whole goes through. Real files, commands and output.

A plan of SQL statements for a database first, then a reviewer's verdict for a protected branch (`demo_patch`).

Everything happens in a folder of its own that is removed at the end. The exit code is 0 only if every step went as it
is said to.
"""

import hashlib
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import TextIOWrapper
from pathlib import Path

from endmark.core import plan, strictjson
from endmark.faces.demo_patch import PatchDemo
from endmark.faces.output import give_up
from endmark.faces.review import MAY_APPROVE

WHOLE = 3_410
CUT = 1_882

STATEMENTS = [
    "CREATE TABLE IF NOT EXISTS schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)",
    """CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  country TEXT NOT NULL CHECK (length(country) = 2),
  vat_id TEXT UNIQUE,
  email TEXT CHECK (email LIKE '%@%')
) STRICT""",
    """CREATE TABLE products (
  sku TEXT PRIMARY KEY,
  title TEXT NOT NULL,
  price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
  tax_permille INTEGER NOT NULL DEFAULT 190,
  weight_grams INTEGER CHECK (weight_grams > 0),
  in_stock INTEGER NOT NULL DEFAULT 0 CHECK (in_stock >= 0)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE invoices (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  issued_on TEXT NOT NULL CHECK (issued_on GLOB '????-??-??'),
  paid_on TEXT CHECK (paid_on IS NULL OR paid_on >= issued_on),
  note TEXT NOT NULL DEFAULT ''
) STRICT""",
    """CREATE TABLE invoice_lines (
  invoice_id INTEGER NOT NULL REFERENCES invoices (id) ON DELETE CASCADE,
  line INTEGER NOT NULL,
  sku TEXT NOT NULL REFERENCES products (sku),
  quantity INTEGER NOT NULL CHECK (quantity > 0),
  price_cents INTEGER NOT NULL CHECK (price_cents >= 0),
  PRIMARY KEY (invoice_id, line)
) STRICT, WITHOUT ROWID""",
    """INSERT INTO customers (id, name, city, country, vat_id) VALUES
  (1, 'Müller & Söhne GmbH', 'Köln', 'DE', 'DE811234567'),
  (2, 'Boulangerie Lefèvre', 'Orléans', 'FR', 'FR40303265045'),
  (3, '株式会社さくら', '東京', 'JP', NULL),
  (4, 'Kavárna U Žluté lípy', 'Plzeň', 'CZ', 'CZ25123891')""",
    """INSERT INTO products (sku, title, price_cents, tax_permille, in_stock) VALUES
  ('KAF-250', 'Kaffee „Hausmischung“, geröstet, 250 g', 749, 70, 120),
  ('KAF-999', 'Kaffee „Hausmischung“, geröstet, 1 kg', 2590, 70, 40),
  ('THE-100', 'Thé vert « Sencha », 100 g', 1190, 70, 64),
  ('TAS-001', 'Tasse, weiß, 0,3 l', 1250, 190, 18),
  ('TAS-002', 'Untertasse, weiß, Ø 14 cm, spülmaschinenfest', 650, 190, 18)""",
    """INSERT INTO invoices (id, customer_id, issued_on, paid_on, note) VALUES
  (1001, 1, '2026-11-02', '2026-11-16', ''),
  (1002, 2, '2026-11-09', NULL, 'à régler sous 30 jours'),
  (1003, 3, '2026-11-27', NULL, '請求書番号 1003'),
  (1004, 4, '2026-11-29', NULL, 'splatnost 14 dní'),
  (1005, 1, '2026-11-30', NULL, 'Lieferung frei Haus, Zahlung in 14 Tagen')""",
    """INSERT INTO invoice_lines (invoice_id, line, sku, quantity, price_cents) VALUES
  (1001, 1, 'KAF-250', 24, 749),
  (1001, 2, 'TAS-001', 6, 1250),
  (1002, 1, 'THE-100', 10, 1190),
  (1003, 1, 'KAF-999', 12, 2390),
  (1004, 1, 'KAF-250', 8, 749),
  (1004, 2, 'THE-100', 4, 1190),
  (1005, 1, 'KAF-250', 48, 729),
  (1005, 2, 'KAF-999', 24, 2490),
  (1005, 3, 'TAS-001', 12, 1190)""",
    "CREATE INDEX invoices_by_customer ON invoices (customer_id, issued_on)",
    """CREATE VIEW open_invoices AS
  SELECT i.id, c.name, i.issued_on, sum(l.quantity * l.price_cents) AS cents
  FROM invoices AS i
  JOIN customers AS c ON c.id = i.customer_id
  JOIN invoice_lines AS l ON l.invoice_id = i.id
  WHERE i.paid_on IS NULL
  GROUP BY i.id
  ORDER BY i.issued_on""",
]


class NotAsPromised(Exception):
    """A step of the demo did not do what it says."""


def main() -> int:
    """Run all steps. Returns the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="endmark-demo-"))
    try:
        Demo(folder).run()
    except NotAsPromised as broken:
        _print(f"\nNOT AS PROMISED: {broken}")
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as fault:  # of what is printed here; whoever closed the pipe has seen enough
        return give_up(fault)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


class Demo:
    """The steps, over the files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shop = folder / "shop.db"
        mine = {name: value for name, value in os.environ.items() if not name.startswith("ENDMARK_")}
        package = str(Path(__file__).resolve().parents[2])
        self._environ = {
            **mine,
            "ENDMARK_LEDGER": "ledger.db",
            MAY_APPROVE: "1",
            "NO_COLOR": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [package, mine.get("PYTHONPATH")])),
        }

    def run(self) -> None:
        self._prepare()
        self._cut()
        self._naive()
        self._retry()
        self._again()
        self._patches()
        _print(
            "\nWhere to go next: 'endmark --help', README.md for what this proves and what it does not, docs/ for\n"
            "pages that take ten minutes each. Your own plan: 'endmark check FILE', then\n"
            "'endmark apply FILE --to sqlite:///app.db'."
        )

    def _prepare(self) -> None:
        for job in ("billing-1", "billing-2"):
            (self._folder / f"{job}.mc1").write_bytes(_envelope(job))
        with _database(self._shop) as shop:
            shop.execute("CREATE TABLE shop (name TEXT NOT NULL)")
            shop.execute("INSERT INTO shop VALUES ('Zum goldenen ∎')")
        _print(
            f"An agent sends {len(STATEMENTS)} SQL statements for shop.db, a real SQLite file: {WHOLE:,} bytes with\n"
            "their envelope. All of it happens in a folder of its own, which is removed at the end.\n"
            f"The commands run with ENDMARK_LEDGER=ledger.db, and with {MAY_APPROVE}=1, so that\n"
            "--yes counts even where an agent's host runs this."
        )

    def _cut(self) -> None:
        _title(1, f"The connection closes at byte {CUT:,} of {WHOLE:,}.")
        whole = (self._folder / "billing-1.mc1").read_bytes()
        (self._folder / "cut.mc1").write_bytes(whole[:CUT])
        _print(f"$ head -c {CUT} billing-1.mc1 > cut.mc1")
        before = _sha256(self._shop)
        said = self._endmark(10, "apply", "cut.mc1", "--to", "sqlite:///shop.db", "--job", "billing-1", "--yes")
        after = _sha256(self._shop)
        _print(f"shop.db before  sha256 {before}\nshop.db after   sha256 {after}")
        _promise(
            f"received {CUT:,} of {WHOLE:,} bytes. Nothing was written" in said, "the refusal names both byte counts"
        )
        _promise(before == after, "the database is byte for byte what it was")

    def _naive(self) -> None:
        _title(
            2,
            "What a worker does that runs each statement as it streams in, under autocommit (not endmark; on a copy).",
        )
        cut = (self._folder / "cut.mc1").read_bytes()
        stand = [statement for statement in STATEMENTS if strictjson.dumps(statement) in cut]
        copy = self._folder / "naive.db"
        shutil.copyfile(self._shop, copy)
        with _database(copy) as naive:
            for statement in stand:
                naive.execute(statement)
            made = [
                (name, naive.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])  # noqa: S608  # names of our own
                for (name,) in naive.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid")
                if name != "shop"
            ]
        _print(
            f"{len(stand)} of {len(STATEMENTS)} statements stand complete in the cut text. Run one by one, they leave:"
        )
        for name, rows in made:
            _print(f"  {name:<14} {rows} rows")
        _print("No view, no index, no products, no receipt, and the connection's end looked like success.")
        _promise(len(stand) == 6, "six statements stand in the cut text")
        _promise(dict(made).get("products") == 0, "the half-applied tables are there")

    def _retry(self) -> None:
        _title(3, "The retry: the whole payload, under a new job id.")
        self._endmark(0, "apply", "billing-2.mc1", "--to", "sqlite:///shop.db", "--yes")
        with _database(self._shop) as shop:
            row = shop.execute("SELECT job_id, stmt_count, sha256, status FROM schema_jobs").fetchall()
            views = shop.execute("SELECT count(*) FROM open_invoices").fetchone()[0]
        _print("The receipt, which stands in shop.db itself (SELECT * FROM schema_jobs):")
        for found in row:
            _print("  " + " | ".join(map(str, found)))
        _promise(
            [(found[0], found[1], found[3]) for found in row] == [("billing-2", 11, "applied")], "the receipt stands"
        )
        _promise(views == 4, "the last statement's view is there and works")
        self._endmark(
            0, "show", "billing-2", shown=lambda text: text.partition("\n   1 |")[0] + "\n(the statements follow)"
        )

    def _again(self) -> None:
        _title(4, "The same delivery once more: the stored state, and no second effect.")
        before = _dump(self._shop)
        said = self._endmark(0, "apply", "billing-2.mc1", "--to", "sqlite:///shop.db", "--yes")
        _promise("nothing was done now" in said, "the second delivery is known")
        _promise(before == _dump(self._shop), "the database is what it was")
        self._endmark(0, "jobs")

    def _patches(self) -> None:
        demo = PatchDemo(self._folder, self._endmark, _print, _promise)
        for number, (text, step) in enumerate(
            (
                ("The second incident: a verdict that merges a patch.", demo.prepare),
                ("The verdict says pass, and its stream is cut, at every byte.", demo.cut),
                ("A whole verdict with two blocking findings.", demo.fail),
                ("The whole verdict, which says pass.", demo.passes),
            ),
            5,
        ):
            _title(number, text)
            step()

    def _endmark(self, expected: int, *arguments: str, shown: Callable[[str], str] = str) -> str:
        """Run one command, show it and what it says, and hold its exit code against the one promised."""
        done = subprocess.run(
            [sys.executable, "-m", "endmark", *arguments],
            cwd=self._folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        said = done.stdout.decode()
        _print(f"$ endmark {shlex.join(arguments)}\n{shown(said).rstrip()}\n[exit code {done.returncode}]")
        _promise(done.returncode == expected, f"endmark {arguments[0]} exits with {expected}")
        return said


def _envelope(job_id: str) -> bytes:
    sealed = plan.seal(plan.Plan(job_id=job_id, statements=STATEMENTS, sha256=plan.digest(STATEMENTS)))
    _promise(len(sealed) == WHOLE, f"the envelope has {WHOLE:,} bytes")
    return sealed


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """The file under autocommit: each statement stands by itself."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def _dump(path: Path) -> list[str]:
    with _database(path) as connection:
        return list(connection.iterdump())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _promise(kept: bool, what: str) -> None:
    if not kept:
        raise NotAsPromised(what)


def _title(number: int, text: str) -> None:
    _print(f"\n{number}. {text}")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
