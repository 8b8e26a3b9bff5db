"""The environment that git runs in: made from nothing, so that no variable of the caller's can change an answer."""

from collections.abc import Mapping

# What is taken over from outside. It says where programs and temporary files are, never what git does.
_KEPT = ("PATH", "TMPDIR", "DEVELOPER_DIR")
# What a fetch needs beside it: the user's ssh agent and proxies.
_KEPT_TO_FETCH = ("SSH_AUTH_SOCK", "http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy")

_FIXED = {
    "LC_ALL": "C",  # git's words are read, never git's translations
    "TZ": "UTC",
    "HOME": "/dev/null",  # below a file there is nothing, so "~/..." names nothing
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ADVICE": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
}
# A partial clone would fetch what it lacks, by whatever program its configuration names. git knows the first variable
# since 2.44 and in the security releases of older lines; the second leaves the others no protocol to do it with.
_NO_NETWORK = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
_NETWORK = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}  # not ext:, which names a program


def scrubbed(environ: Mapping[str, str], network: bool = False) -> dict[str, str]:
    """The environment for one git process; `environ` is the caller's own, `network` lets git fetch."""
    kept = _KEPT + _KEPT_TO_FETCH if network else _KEPT
    taken = {name: environ[name] for name in kept if name in environ}
    return taken | _FIXED | (_NETWORK if network else _NO_NETWORK)
