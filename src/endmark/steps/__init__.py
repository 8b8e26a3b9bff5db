"""The steps that the doings share: each does one part of what a gate does, and no gate calls another."""
