"""Plans that the tests of this folder share."""

ELEVEN = (
    "CREATE TABLE accounts (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    """CREATE TABLE invoices (id INT PRIMARY KEY, account INT, total DECIMAL(10,2),
    CONSTRAINT to_account FOREIGN KEY (account) REFERENCES accounts (id))""",
    "INSERT INTO accounts VALUES (1, 'Žluť ∎'), (2, 'it''s')",
    "INSERT INTO invoices SELECT id, id, 9.5 FROM accounts",
    "ALTER TABLE users ADD COLUMN email VARCHAR(80)",
    "UPDATE users SET email = CONCAT(name, '@example.org')",
    "CREATE UNIQUE INDEX by_email ON users (email)",
    "CREATE VIEW owing AS SELECT account, SUM(total) AS total FROM invoices GROUP BY account",
    "CREATE TRIGGER upper_case BEFORE INSERT ON accounts FOR EACH ROW SET NEW.name = UPPER(NEW.name)",
    "INSERT INTO accounts VALUES (3, 'late')",
    "ALTER TABLE invoices ADD COLUMN note TEXT, ADD INDEX by_total (total)",
)
DOWNS = (
    "DROP TABLE accounts",
    "DROP TABLE invoices",
    "DELETE FROM accounts",
    "DELETE FROM invoices",
    "ALTER TABLE users DROP COLUMN email",
    "UPDATE users SET email = NULL",
    "DROP INDEX by_email ON users",
    "DROP VIEW owing",
    "DROP TRIGGER upper_case",
    "DELETE FROM accounts WHERE id = 3",
    "ALTER TABLE invoices DROP COLUMN note, DROP INDEX by_total",
)


def failing_at(n, many=11):
    """The first `many`, with one more at place `n`, counted from 1, that fails when it meets the rows."""
    statements, downs = list(ELEVEN[:many]), list(DOWNS[:many])
    statements.insert(n - 1, "INSERT INTO users (id, name) VALUES (1, 'twice')")
    downs.insert(n - 1, "SELECT 1")
    return statements, downs
