"""Removes each check of the code, one at a time, and sees whether a test notices.

    make mutation                                    the rooms that decide and write
    .venv/bin/python -m tests.mutation --only src/endmark/core/mc1.py

A mutant is one check less: a condition that never holds, an operand or a call left out, a bound moved by one. All tests
are collected once; each mutant gets a forked copy of that process, in which one function's code is exchanged, and runs
there the tests that are known to reach the line, until one fails. What is survived is listed, and fails the run unless
`equivalent.toml` says why nobody could tell the difference.

Code that a test starts in a process of its own is not mutated there: a check must be noticed in-process.
"""
