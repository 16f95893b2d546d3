"""Characters that are not seen in an editor, which come with text from web pages and chats."""

import unicodedata

__all__ = ["described", "hidden"]


def hidden(code) -> str:
    """The first character of a text that is not seen, such as a zero-width space; "" if all are."""
    return next((c for c in code if ord(c) > 127 and (unicodedata.category(c) in _HIDDEN or c in _SELECTORS)), "")


_HIDDEN = ("Cf", "Cc", "Zl", "Zp")
_SELECTORS = {chr(n) for n in range(0xFE00, 0xFE10)}  # which follow an emoji


def described(character) -> str:
    """'zero width space (U+200B)'"""
    return f"{unicodedata.name(character, 'without a name').lower()} (U+{ord(character):04X})"
