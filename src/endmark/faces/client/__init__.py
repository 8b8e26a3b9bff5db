"""The service from Python: what its answers are as values, and nothing to install for it."""
