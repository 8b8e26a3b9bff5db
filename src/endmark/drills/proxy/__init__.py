"""An HTTP/1.1 reverse proxy: it passes answers on, breaks them on purpose, or guards against broken ones."""
