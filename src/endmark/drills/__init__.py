"""Things are broken here on purpose: faults as values, and the proxy that plays them, or that guards against them."""
