"""The gates over HTTP: agents submit, people approve, workers apply (spec/http.md)."""
