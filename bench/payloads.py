"""The payloads that are measured, made anew and always the same."""

import hashlib
import json


def plan(job_id: str, statements: list[str], **more: object) -> bytes:
    """A bare plan, as a publisher other than endmark writes it."""
    digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
    document = {
        "tool": "apply_schema",
        "job_id": job_id,
        "stmt_count": len(statements),
        "sha256": digest,
        "statements": statements,
        "trailer": "END_APPLY",
        **more,
    }
    return json.dumps(document, ensure_ascii=False).encode()


def envelope(text: bytes) -> bytes:
    body = text + b"\nEND\n"
    return b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode(), body)


def inserts(count: int) -> list[str]:
    return [
        f"INSERT INTO readings VALUES ({at}, 'a text that makes the whole about a hundred bytes long', {at % 97})"
        for at in range(count)
    ]


def commented(count: int) -> list[str]:
    return [f"/* reading {at} */ {statement}" for at, statement in enumerate(inserts(count))]


def tables(count: int) -> list[str]:
    return [f"CREATE TABLE made_{at} (id INTEGER PRIMARY KEY, name TEXT NOT NULL, at TEXT)" for at in range(count)]


ELEVEN = [
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE, created_at TEXT)",
    "CREATE TABLE products (id INTEGER PRIMARY KEY, sku TEXT NOT NULL UNIQUE, title TEXT NOT NULL, cents INTEGER)",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), placed_at TEXT)",
    "CREATE TABLE order_lines (order_id INTEGER REFERENCES orders (id), product_id INTEGER, quantity INTEGER)",
    "CREATE INDEX orders_by_customer ON orders (customer_id)",
    "CREATE INDEX lines_by_order ON order_lines (order_id)",
    "CREATE VIEW open_orders AS SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id",
    "ALTER TABLE orders ADD COLUMN shipped_at TEXT",
    "INSERT INTO products (sku, title, cents) VALUES ('A-1', 'Lamp', 1900), ('A-2', 'Desk', 24900)",
    "INSERT INTO customers (name, email) VALUES ('Ada', 'ada@example.org'), ('Linus', 'linus@example.org')",
    "UPDATE products SET cents = cents - 100 WHERE sku = 'A-1'",
]
