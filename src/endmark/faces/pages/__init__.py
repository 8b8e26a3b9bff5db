"""The dashboard: what waits for whom, what became of every attempt, and the forms by which people decide."""
