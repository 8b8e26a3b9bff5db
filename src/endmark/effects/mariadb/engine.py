"""Which servers are taken, by the version they give.

From MariaDB 10.6 and MySQL 8.0 on a single statement about the schema is atomic, also when the server is killed: older
ones cannot keep what a plan of one statement is promised. Others speak the protocol and keep other promises.
"""

import re

from endmark.core.refusal import CannotTry

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,4})((?:[-+~.:][A-Za-z0-9.+~:_-]*)?)")
_MARIADB, _MYSQL = (10, 6), (8, 0)
# What stands behind the number of builds of MySQL, beside numbers. NDB's `cluster` shares no locks between its nodes.
_BUILDS = frozenset(
    {
        "log",
        "debug",
        "ubuntu",
        "debian",
        "deb",
        "el",
        "fc",
        "commercial",
        "enterprise",
        "cloud",
        "google",
        "azure",
        "rds",
    }
)
_OTHERS: tuple[str, ...] = (
    "tidb",
    "vitess",
    "planetscale",
    "oceanbase",
    "memsql",
    "singlestore",
    "doris",
    "starrocks",
    "dolt",
    "polardb",
)
_OTHERS += ("clickhouse", "databend", "matrixone", "manticore", "sphinx", "maxscale", "proxysql", "cluster")


def is_mariadb(version: str, comment: str) -> bool:
    """Whether a server that is taken is MariaDB; else it is MySQL. Raises CannotTry for one that is not taken.

    `version`, `comment`: what it answers to VERSION() and @@version_comment.
    """
    said = f"{version} {comment}".lower()
    found = _VERSION.fullmatch(version)
    other = next((name for name in _OTHERS if name in said), None)
    maria = found is not None and "mariadb" in said
    if found is None or other is not None or not (maria or _is_build_of_mysql(found[4])):
        raise CannotTry(f"the target's server gives its version as {_short(version)} ({_short(comment)}), {_EXPECTED}")
    if (int(found[1]), int(found[2])) < (_MARIADB if maria else _MYSQL):
        raise CannotTry(
            f"the target's server is {'MariaDB' if maria else 'MySQL'} {_short(version)}, which does not undo a "
            f"statement about the schema when it is killed; {_EXPECTED}"
        )
    return maria


_EXPECTED = "MariaDB 10.6 or MySQL 8.0 or later was expected. Nothing was written; see docs/mariadb.md."


def _is_build_of_mysql(suffix: str) -> bool:
    return all(word in _BUILDS for word in re.findall(r"[A-Za-z]+", suffix.lower()))


def _short(said: str) -> str:
    return repr(said[:80])
