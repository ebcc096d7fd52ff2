"""Refusal of weak passwords: short passwords, and passwords that guessing programs try first."""

import re
from typing import Final

MIN_LENGTH: Final = 12
# Minimum length of a password. Common words and keyboard runs count as one character each.
_MIN_UNITS: Final = 6
_MIN_DISTINCT: Final = 5
_RUN: Final = 3

# Words that make up most passwords in published lists.
_COMMON: Final = """
    password passwort passwd pass word welcome willkommen admin administrator root user guest login letmein changeme
    change default secret master server system test testing temp temporary demo sample example hello love iloveyou
    princess prince dragon monkey sunshine shadow football baseball basketball soccer hockey superman batman spiderman
    pokemon starwars computer internet windows linux apple google facebook samsung iphone android microsoft amazon
    github docker oracle qwerty qwertz azerty asdf asdfgh zxcvbn qazwsx trustno access freedom whatever nothing
    everything forever summer winter spring autumn january february march april june july august september october
    november december monday tuesday wednesday thursday friday saturday sunday london paris berlin tokyo newyork
    america england germany france canada michael jennifer jessica jordan michelle daniel thomas george charlie andrew
    matthew joshua robert william ashley amanda nicole hannah sophie maggie buster ginger pepper cookie banana orange
    cheese chocolate flower butterfly diamond purple yellow silver golden killer hunter ranger thunder phoenix eagle
    tiger lion mustang ferrari porsche mercedes harley yamaha matrix jqmaster queue worker jobs operator viewer redis
    valkey company office work home family mother father please money
    """
_ROWS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "01234567890",
    "qwertyuiop",
    "qwertzuiop",
    "asdfghjkl",
    "zxcvbnm",
    "yxcvbnm",
)
_LEET: Final = str.maketrans("@431!0$57", "aaeiiosst")
_WORDS: Final = re.compile("|".join([*sorted(_COMMON.split(), key=len, reverse=True), r"(?:19|20)\d\d"]))


def fault_of(password: str, user: str) -> str | None:
    """Return the rule that a new password of this user breaks, or None."""
    if len(password) < MIN_LENGTH:
        return f"must have at least {MIN_LENGTH} characters"
    folded = password.casefold()
    if len(set(folded)) < _MIN_DISTINCT:
        return f"must have at least {_MIN_DISTINCT} different characters"
    if len(folded.replace(user.casefold(), "")) < _MIN_UNITS:
        return "must not consist of the user name"
    if min(_units(folded), _units(folded.translate(_LEET))) < _MIN_UNITS:
        return "is easy to guess: it consists of common words or of neighbouring keys"
    return None


def _units(text: str) -> int:
    """Count characters, with each common word, year, run of neighbouring keys and repeated character as one."""
    text = _WORDS.sub("\0", text)
    units, at = 0, 0
    while at < len(text):
        units += 1
        at += max(1, _run_length(text[at:]))
    return units


def _run_length(text: str) -> int:
    longest = len(text) - len(text.lstrip(text[0]))
    for row in _ROWS:
        for keys in (row, row[::-1]):
            end = 0
            while end < len(text) and text[: end + 1] in keys:
                end += 1
            longest = max(longest, end)
    return longest if longest >= _RUN else 1
