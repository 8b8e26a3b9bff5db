"""The book of every attempt, refused ones too: append-only, hash-chained, its rules enforced by the SQL itself."""
