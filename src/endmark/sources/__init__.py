"""Bytes come in here, to a finite end."""
