"""A page, read as a screen reader or a strict reviewer would."""

from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
SHAPES = {"rect", "line", "circle", "path"}


class Page(HTMLParser):
    """`elements`: (tag, attributes, text, the tags around it) of each, in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements: list[dict] = []
        self._open: list[dict] = []
        self.feed(text)
        self.close()
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        one = {"tag": tag, "attrs": dict(attrs), "text": "", "around": [each["tag"] for each in self._open]}
        self.elements.append(one)
        if tag not in VOID:
            self._open.append(one)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open[-1]["tag"] == tag, (tag, [each["tag"] for each in self._open])
        self._open.pop()

    def handle_data(self, data):
        for one in self._open:
            one["text"] += data

    def all(self, tag, **attrs):
        return [
            one
            for one in self.elements
            if one["tag"] == tag and all(one["attrs"].get(name.rstrip("_")) == value for name, value in attrs.items())
        ]

    def states(self):
        """(the classes, the words) of everything that says a state."""
        return [
            (one["attrs"]["class"].split(), one["text"].split())
            for one in self.all("span")
            if one["attrs"].get("class", "").startswith("state ")
        ]

    def field(self, name):
        return self.all("input", name=name)[0]["attrs"]["value"]

    def faults(self):
        """What would keep somebody out."""
        found = []
        for landmark in ("main", "header", "footer"):
            top = [one for one in self.all(landmark) if one["around"] == ["html", "body"]]
            if len(top) != 1:
                found.append(f"{len(top)} {landmark}")
        if len(self.all("h1")) != 1:
            found.append("not one h1")
        level = 1
        for one in self.elements:
            if one["tag"] in ("h1", "h2", "h3", "h4"):
                if int(one["tag"][1]) > level + 1:
                    found.append(f"a level is skipped at {one['text']!r}")
                level = int(one["tag"][1])
        captions = sum(one["around"][-1] == "table" for one in self.all("caption"))
        if captions != len(self.all("table")):
            found.append("a table without a caption")
        found += [f"th without scope: {one['text']}" for one in self.all("th") if "scope" not in one["attrs"]]
        labelled = {one["attrs"].get("for") for one in self.all("label")}
        for one in self.all("input") + self.all("select") + self.all("textarea"):
            if one["attrs"].get("type") != "hidden" and one["attrs"].get("id") not in labelled:
                found.append(f"no label: {one['attrs']}")
        found += [f"no name: {one}" for one in self.all("a") + self.all("button") if not one["text"].strip()]
        found += [f"no alt: {one['attrs']}" for one in self.all("img") if not one["attrs"].get("alt")]
        ids = [one["attrs"]["id"] for one in self.elements if "id" in one["attrs"]]
        found += [f"an id twice: {name}" for name in set(ids) if ids.count(name) > 1]
        for one in self.elements:
            for name in (one["attrs"].get("aria-labelledby") or "").split():
                if name not in ids:
                    found.append(f"labelled by nothing: {name}")
            for name in one["attrs"]:
                if name.startswith("on") or name == "style":
                    found.append(f"{one['tag']} has {name}")
        if self.all("html")[0]["attrs"].get("lang") != "en":
            found.append("no language")
        return found
