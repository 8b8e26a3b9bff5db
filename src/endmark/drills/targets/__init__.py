"""What a drill attacks: our gates, any command, any HTTP endpoint, any Python callable, a client behind the proxy."""
