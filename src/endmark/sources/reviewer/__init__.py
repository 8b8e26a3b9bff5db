"""Asking a reviewer once: a model behind an HTTP API, or a command of this machine. Others judge what comes back."""
