"""Texts that look equal but differ: composed and decomposed letters, invisible characters, letters of other scripts."""

from __future__ import annotations

import re
import unicodedata

# Small and capital letters of the Cyrillic and the Greek script, hyphens and an apostrophe that look like ASCII.
_LIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405"
    "\u03bd\u03bf\u03c1"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u2010\u2011\u2012\u2013\u2014\u2212\u2019",
    "aeopcyxijshdqwABEKMHOPCTXIJSvopABEZHIKMNOPTYX------'",
)
# Characters without a form, besides those of the category Cf, such as a zero-width space or a byte order mark.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufe00-\ufe0f]")


def look_alike(one: str, other: str) -> bool:
    """Return whether two different texts may look equal on a screen."""
    return one != other and outline(one) == outline(other)


def outline(text: str) -> str:
    """Return a text of which texts that look equal have the same."""
    if text.isascii():
        return text
    known = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text).translate(_LIKE)).translate(_LIKE)
    categories = [(each, unicodedata.category(each)) for each in known]
    return "".join(" " if category == "Zs" else each for each, category in categories if category != "Cf")
