"""Passwords that are refused, and those that are not."""

import pytest

from jqmaster.domain.identity.password_rules import fault_of

pytestmark = pytest.mark.rule("E1.4")


@pytest.mark.parametrize(
    "password",
    [
        "", "short", "elevenchars", "aaaaaaaaaaaa", "abababababab", "password1234", "Password12!", "P@ssw0rd1234",
        "passwordpassword",
        "123456789012", "1234567890123456", "qwertyuiop12", "QwertyQwerty1", "letmein12345", "welcome2026!",
        "abcdefghijkl",
        "zyxwvutsrqpo", "adaadaadaada", "ada.lovelace", "ADA.LOVELACE", "ada.lovelace12", "jqmaster2026",
        "admin-admin-1",
    ],
)  # fmt: skip
def test_passwords_that_are_guessed_first_are_refused(password: str) -> None:
    assert fault_of(password, "ada.lovelace" if "ada" in password.lower() else "ada") is not None


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery", "tr0ub4dor&3xyz", "mX9#kl2!vQ8r", "vier Zimmer am Fluss",
        "パスワードではない何か別のもの",
        "ada likes 7 sour plums", "x" * 3 + "kd82hs7ql1",
    ],
)  # fmt: skip
def test_a_password_that_nobody_guesses_is_taken(password: str) -> None:
    assert fault_of(password, "ada") is None


def test_length_does_not_make_it_slow() -> None:
    assert fault_of("a1" * 100, "ada") is not None
    assert fault_of("password" * 25, "ada") is not None
