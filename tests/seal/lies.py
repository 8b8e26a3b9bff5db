"""What a server makes of a text that was cut, when it wants the cut not to be seen: it closes the JSON."""

import json


def closings(text):
    """Every way we know to close a cut JSON text so that it decodes: brackets alone, or with less or more before."""
    in_string, escaped, stack = False, False, []
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            stack.append("]" if character == "[" else "}")
        elif character in "]}":
            stack.pop()
    closers = "".join(reversed(stack))
    tried = [text + closers, text + '"' + closers, text + ": null" + closers, text + '": null' + closers]
    tried += [text + "null" + closers, text + "0" + closers, text.rstrip().rstrip(",") + closers]
    if "," in text:
        tried.append(text[: text.rindex(",")] + closers)
    if in_string:
        start = text.rindex('"')
        tried.append(text[:start].rstrip().rstrip(",") + closers)
    return [closed for closed in dict.fromkeys(tried) if closed != text and value_of(closed) is not None]


def value_of(text):
    """What a client that is not strict makes of a text; None for nothing."""
    try:
        return json.JSONDecoder(strict=False).decode(text)  # noqa: TID251
    except ValueError:
        return None
