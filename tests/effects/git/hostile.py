"""What can be set around a repository so that git shows something else, or runs something."""

import os
from pathlib import Path
from typing import NamedTuple

from tests.effects.git.repos import git


class World(NamedTuple):
    """A repository with a home, and an environment that a test hands to git. `canary` is made by whatever runs."""

    repo: Path
    home: Path
    env: dict[str, str]
    canary: Path

    @property
    def evil(self):
        """A command that leaves its mark."""
        return str(self.home / "evil")


def prepare(repo, home):
    home.mkdir()
    canary = home / "canary"
    evil = home / "evil"
    evil.write_text(f'#!/bin/sh\ntouch "{canary}"\necho evil\nexit 0\n')
    evil.chmod(0o755)
    return World(repo, home, {"PATH": os.environ["PATH"], "HOME": str(home)}, canary)


def repo_config(*pairs):
    def apply(world):
        for name, value in pairs:
            git(world.repo, "config", "--add", name, value.replace("EVIL", world.evil))

    return apply


def user_config(*pairs):
    def apply(world):
        for name, value in pairs:
            git(world.repo, "config", "--file", world.home / ".gitconfig", name, value.replace("EVIL", world.evil))

    return apply


def system_config(*pairs):
    def apply(world):
        for name, value in pairs:
            git(world.repo, "config", "--file", world.home / "system", name, value.replace("EVIL", world.evil))
        world.env["GIT_CONFIG_SYSTEM"] = str(world.home / "system")

    return apply


def env(**variables):
    def apply(world):
        for name, value in variables.items():
            world.env[name] = value.replace("EVIL", world.evil).replace("HOME", str(world.home))

    return apply


def file(name, text):
    """A file in the repository's git folder."""

    def apply(world):
        path = world.repo / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.replace("EVIL", world.evil).encode())

    return apply


def hook(name):
    def apply(world):
        path = world.repo / ".git" / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(Path(world.evil).read_text())
        path.chmod(0o755)

    return apply


def several(*steps):
    def apply(world):
        for step in steps:
            step(world)

    return apply


def replaced(what, by):
    def apply(world):
        plain = {"GIT_NO_REPLACE_OBJECTS": "1"}
        one, other = (git(world.repo, "rev-parse", name, env=plain) for name in (what, by))
        git(world.repo, "replace", "-f", one, other)

    return apply


def grafted(world):
    side, orphan = (git(world.repo, "rev-parse", name) for name in ("side", "orphan"))
    (world.repo / ".git" / "info").mkdir(exist_ok=True)
    (world.repo / ".git" / "info" / "grafts").write_text(f"{side} {orphan}\n")


def included(world):
    (world.home / "more").write_text(f"[diff]\n\texternal = {world.evil}\n\tnoprefix = true\n")
    git(world.repo, "config", f"includeIf.gitdir:{world.repo}/.path", str(world.home / "more"))
    git(world.repo, "config", "include.path", str(world.home / "more"))


def promisor(world):
    repo_config(
        ("extensions.partialClone", "evil"), ("remote.evil.url", "ext::EVIL"), ("remote.evil.promisor", "true"),
        ("remote.evil.uploadpack", "EVIL"), ("protocol.ext.allow", "always"), ("core.repositoryFormatVersion", "1"),
    )(world)  # fmt: skip


def worktree_file(name, text):
    def apply(world):
        (world.repo / name).write_text(text)

    return apply


_DRIVER = (("diff.evil.command", "EVIL"), ("diff.evil.textconv", "EVIL"), ("merge.evil.driver", "EVIL"))
_FILTER = (("filter.evil.clean", "EVIL"), ("filter.evil.smudge", "EVIL"), ("filter.evil.required", "true"))
_ALL = "* diff=evil merge=evil filter=evil\n"

TABLE = {
    # drivers, filters, programs
    "an external diff, by the user": user_config(("diff.external", "EVIL")),
    "an external diff, by the system": system_config(("diff.external", "EVIL")),
    "an external diff, by the repository": repo_config(("diff.external", "EVIL")),
    "an external diff, by a variable": env(GIT_EXTERNAL_DIFF="EVIL"),
    "drivers for tracked attributes": repo_config(*_DRIVER),
    "drivers for every file": several(repo_config(*_DRIVER), file("info/attributes", _ALL)),
    "drivers by the user's attributes": several(user_config(*_DRIVER), file("info/attributes", _ALL)),
    "a cached text conversion": repo_config(("diff.evil.textconv", "EVIL"), ("diff.evil.cachetextconv", "true")),
    "filters": several(repo_config(*_FILTER), file("info/attributes", _ALL)),
    "a filter process": several(repo_config(("filter.evil.process", "EVIL")), file("info/attributes", _ALL)),
    "the default merge driver": repo_config(("merge.default", "evil"), *_DRIVER),
    "a merge driver called text": repo_config(("merge.text.driver", "EVIL"), ("merge.union.driver", "EVIL")),
    "a file system monitor": repo_config(("core.fsmonitor", "EVIL")),
    "hooks elsewhere": several(repo_config(("core.hooksPath", "../hooks")), hook("post-index-change")),
    "a reference-transaction hook": hook("reference-transaction"),
    "a pager": repo_config(("core.pager", "EVIL"), ("pager.diff-tree", "EVIL"), ("pager.rev-parse", "EVIL")),
    "a pager, by a variable": env(GIT_PAGER="EVIL", PAGER="EVIL", GIT_PAGER_IN_USE="1"),
    "editors": env(GIT_EDITOR="EVIL", EDITOR="EVIL", VISUAL="EVIL", GIT_SEQUENCE_EDITOR="EVIL"),
    "ssh": several(env(GIT_SSH="EVIL", GIT_SSH_COMMAND="EVIL"), repo_config(("core.sshCommand", "EVIL"))),
    "askpass": several(env(GIT_ASKPASS="EVIL", SSH_ASKPASS="EVIL"), repo_config(("core.askPass", "EVIL"))),
    "a credential helper": repo_config(("credential.helper", "!EVIL")),
    "a promisor remote that is a program": promisor,
    "aliases of what is run": repo_config(
        ("alias.diff-tree", "!EVIL"), ("alias.merge-tree", "!EVIL"), ("alias.for-each-ref", "!EVIL")
    ),
    "signing programs": repo_config(("gpg.program", "EVIL"), ("commit.gpgSign", "true"), ("log.showSignature", "true")),
    "trace2 hooks": system_config(("trace2.eventTarget", "/dev/stderr"), ("trace2.normalTarget", "1")),
    "an alternate refs command": repo_config(("core.alternateRefsCommand", "EVIL")),
    # the shape of a diff
    "no prefix": repo_config(("diff.noprefix", "true")),
    "mnemonic prefixes": repo_config(("diff.mnemonicPrefix", "true")),
    "other prefixes": repo_config(("diff.srcPrefix", "x/"), ("diff.dstPrefix", "y/")),
    "no context": repo_config(("diff.context", "0")),
    "much context": user_config(("diff.context", "99"), ("diff.interHunkContext", "99")),
    "another algorithm": repo_config(("diff.algorithm", "patience")),
    "no indent heuristic": repo_config(("diff.indentHeuristic", "false")),
    "renames": repo_config(("diff.renames", "copies"), ("diff.renameLimit", "1")),
    "no renames": repo_config(("diff.renames", "false"), ("merge.renames", "false")),
    "relative paths": repo_config(("diff.relative", "true")),
    "an order of files": several(file("order", "z*\n*\n"), repo_config(("diff.orderFile", ".git/order"))),
    "submodules as a log": repo_config(("diff.submodule", "log")),
    "submodules as a diff": repo_config(("diff.submodule", "diff")),
    "submodules ignored": repo_config(("diff.ignoreSubmodules", "all")),
    "one submodule ignored": repo_config(("submodule.sub.ignore", "all"), ("submodule.sub.active", "true")),
    "word diff": repo_config(("diff.wordRegex", ".")),
    "white space highlighted": repo_config(("diff.wsErrorHighlight", "all"), ("core.whitespace", "-trailing-space")),
    "colour": repo_config(("color.ui", "always"), ("color.diff", "always"), ("diff.colorMoved", "zebra")),
    "paths not quoted": repo_config(("core.quotePath", "false")),
    "function names of one's own": several(
        repo_config(("diff.evil.xfuncname", "^(.*)$")), file("info/attributes", "* diff=evil\n")
    ),
    "a statistic": repo_config(("diff.statNameWidth", "5"), ("diff.dirstat", "files")),
    "blank context lines suppressed": repo_config(("diff.suppressBlankEmpty", "true")),
    "nothing is a diff": repo_config(("diff.autoRefreshIndex", "false"), ("log.diffMerges", "off")),
    # attributes
    "every file called binary": file("info/attributes", "* binary\n"),
    "every file without a diff": file("info/attributes", "* -diff\n"),
    "every file called text": file("info/attributes", "* text diff\n*.bin text diff\n"),
    "merge=ours": file("info/attributes", "* merge=ours\n"),
    "merge=binary": file("info/attributes", "* merge=binary\n"),
    "merge=union": file("info/attributes", "* merge=union\n"),
    "line endings": several(file("info/attributes", "* eol=crlf\n"), repo_config(("core.autocrlf", "true"))),
    "working tree encodings": file("info/attributes", "* working-tree-encoding=UTF-16\n"),
    "ident": file("info/attributes", "* ident\n"),
    "an attributes file of the user's": several(
        file("theirs", "* -diff\n"), user_config(("core.attributesFile", "~/attributes"))
    ),
    "attributes in the work tree": worktree_file(".gitattributes", "* -diff merge=ours\n"),
    "attributes of another tree": several(repo_config(("attr.tree", "topic")), env(GIT_ATTR_SOURCE="topic")),
    "conflict markers of another size": file("info/attributes", "* conflict-marker-size=1\n"),
    # merging
    "renormalize": repo_config(("merge.renormalize", "true"), ("core.eol", "crlf")),
    "directory renames": repo_config(("merge.directoryRenames", "false"), ("merge.renameLimit", "1")),
    "the conflict style": repo_config(("merge.conflictStyle", "diff3"), ("merge.verbosity", "5")),
    "only fast-forward": repo_config(("merge.ff", "only"), ("pull.rebase", "true")),
    "branch options": repo_config(("branch.main.mergeOptions", "-s ours -X theirs")),
    "an old merge strategy": env(GIT_TEST_MERGE_ALGORITHM="recursive", GIT_MERGE_VERBOSITY="5"),
    # objects that are others
    "a commit replaced": replaced("topic", "main"),
    "a tree replaced": replaced("topic^{tree}", "main^{tree}"),
    "a base replaced": replaced("main", "start"),
    "a file replaced": replaced("topic:new.txt", "main:text.txt"),
    "replacements elsewhere": several(replaced("topic", "main"), env(GIT_REPLACE_REF_BASE="refs/replace/")),
    "a graft": grafted,
    "grafts by a variable": several(grafted, env(GIT_GRAFT_FILE=".git/info/grafts")),
    "another object store": env(GIT_OBJECT_DIRECTORY="HOME", GIT_ALTERNATE_OBJECT_DIRECTORIES="HOME"),
    "another repository": env(GIT_DIR="HOME", GIT_WORK_TREE="HOME", GIT_COMMON_DIR="HOME"),
    "another namespace": env(GIT_NAMESPACE="evil", GIT_REF_PARANOIA="0"),
    "another shallow file": env(GIT_SHALLOW_FILE="HOME/evil"),
    "another index": env(GIT_INDEX_FILE="HOME/evil", GIT_INDEX_VERSION="4"),
    "an index of junk": file("index", b"DIRC\x00\x00\x00\x02junk"),
    "a shared index that is gone": repo_config(("core.splitIndex", "true"), ("index.sparse", "true")),
    "a sparse checkout": several(file("info/sparse-checkout", "/none\n"), repo_config(("core.sparseCheckout", "true"))),
    "another work tree": repo_config(("core.worktree", "../../elsewhere")),
    "bare": repo_config(("core.bare", "true")),
    "a work tree's own configuration": several(
        repo_config(("core.repositoryFormatVersion", "1"), ("extensions.worktreeConfig", "true")),
        file("config.worktree", "[diff]\n\texternal = EVIL\n\tnoprefix = true\n"),
    ),
    # configuration by other roads
    "configuration by variables": env(
        GIT_CONFIG_COUNT="2", GIT_CONFIG_KEY_0="diff.noprefix", GIT_CONFIG_VALUE_0="true",
        GIT_CONFIG_KEY_1="diff.external", GIT_CONFIG_VALUE_1="EVIL",
    ),
    "configuration by parameters": env(GIT_CONFIG_PARAMETERS="'diff.external'='EVIL' 'core.quotepath'='false'"),
    "another configuration": several(
        user_config(("diff.external", "EVIL")), env(GIT_CONFIG="HOME/.gitconfig", GIT_CONFIG_GLOBAL="HOME/.gitconfig")
    ),
    "an XDG configuration": several(
        lambda world: (world.home / "git").mkdir(),
        lambda world: (world.home / "git" / "config").write_text(f"[diff]\n\texternal = {world.evil}\n"),
        env(XDG_CONFIG_HOME="HOME"),
    ),
    "included configuration": included,
    "an include that is not there": repo_config(("include.path", "~/none"), ("include.path", "/none/either")),
    "options of a diff": env(GIT_DIFF_OPTS="--unified=0", GIT_LITERAL_PATHSPECS="0", GIT_ICASE_PATHSPECS="1"),
    "programs of one's own": env(GIT_EXEC_PATH="HOME", GIT_TEMPLATE_DIR="HOME"),
    "tracing": env(GIT_TRACE="1", GIT_TRACE_SETUP="2", GIT_TRACE2_EVENT="1", GIT_TRACE_PACKET="1"),
    "another language": env(LC_ALL="cs_CZ.UTF-8", LANG="cs_CZ.UTF-8", LANGUAGE="cs"),
    "a ceiling": env(GIT_CEILING_DIRECTORIES="/", GIT_DISCOVERY_ACROSS_FILESYSTEM="0"),
    "a default hash": env(GIT_DEFAULT_HASH="sha256", GIT_DEFAULT_REF_FORMAT="reftable"),
    "no lazy fetch switched off": env(GIT_NO_LAZY_FETCH="0", GIT_ALLOW_PROTOCOL="ext:file", GIT_PROTOCOL_FROM_USER="1"),
    # what is shown of the store
    "names that are commented": repo_config(("core.commentChar", "+"), ("i18n.logOutputEncoding", "UTF-16")),
    "abbreviated ids": repo_config(("core.abbrev", "4"), ("log.abbrevCommit", "true")),
    "a log format": repo_config(("format.pretty", "%H evil"), ("log.date", "relative"), ("log.showRoot", "false")),
    "refs sorted and coloured": repo_config(("branch.sort", "-refname"), ("tag.sort", "-refname")),
    "refs hidden": repo_config(("transfer.hideRefs", "refs/heads"), ("uploadpack.hideRefs", "refs/")),
    "ambiguity not warned of": repo_config(("core.warnAmbiguousRefs", "false")),
    "file modes ignored": repo_config(("core.fileMode", "false"), ("core.ignoreCase", "true")),
    "unicode precomposed": repo_config(("core.precomposeUnicode", "true"), ("core.protectNTFS", "false")),
    "big files at one byte": repo_config(("core.bigFileThreshold", "1")),
    "a tiny cache": repo_config(("core.packedGitLimit", "1"), ("core.deltaBaseCacheLimit", "1"), ("pack.threads", "9")),
    "safe directories": user_config(("safe.directory", ""), ("safe.bareRepository", "explicit")),
    "features to come": repo_config(("feature.experimental", "true"), ("feature.manyFiles", "true")),
}  # fmt: skip
