"""The door for agents that speak the Model Context Protocol: whole plans in, a plain answer out, within ten seconds.

What an agent hands over waits for a person, unless the configuration names the target. Nothing here takes a URL, a
repository or a root folder from an agent.
"""
