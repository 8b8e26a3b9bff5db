"""The one thing the faces raise when they are called wrongly."""


class Misuse(Exception):
    """An argument, a variable or the configuration makes no sense. One sentence says which and why."""
