"""The sweep: every fault of some families against one target, with a control that must be accepted."""
