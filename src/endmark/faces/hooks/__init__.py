"""What an agent's host asks before it runs a tool: may this call go through?

A courtesy fence, no lock: it keeps an agent that means well on the road through the gate. Whoever can run commands can
find a road that no reader of commands sees.
"""
