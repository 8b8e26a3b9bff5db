"""The keys: can they be used, are they of the right kind, and are they kept from others?"""

from collections.abc import Iterator

from endmark.core.refusal import CannotTry
from endmark.faces.doctor.finding import Case, Finding, todo, well
from endmark.faces.misuse import Misuse
from endmark.sources import keys

FAMILY = "keys"


def look(case: Case) -> Iterator[Finding]:
    for name in case.config.trusted_keys or ():
        try:
            keys.verifier(name)
        except CannotTry as fault:
            do = "put public Ed25519 keys there that only its owner can write to, or name another file in trusted_keys"
            yield todo(FAMILY, str(name), fault.detail, do)
        else:
            yield well(FAMILY, str(name), "public Ed25519 keys, and others cannot write to the file")
    try:
        key = case.config.merge_key
        if key is not None:
            keys.sign(b"endmark doctor", key)  # tried, and thrown away
            yield well(FAMILY, str(key), "the gate's Ed25519 key, for its owner alone")
    except (CannotTry, Misuse) as fault:
        do = "'endmark key new FILE' makes one; name it in [merge] of endmark.toml"
        yield todo(FAMILY, "merge key", fault.detail if isinstance(fault, CannotTry) else str(fault), do)
