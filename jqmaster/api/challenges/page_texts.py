"""The texts of the page on which people answer a challenge, in every supported language."""

import re
from collections.abc import Mapping
from typing import Final

from jqmaster.domain.instant import about

LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "ja": "日本語"}

_EN: Final = {
    "approve": "Approve",
    "reject": "Reject",
    "comment": "Comment",
    "optional": "optional",
    "required": "required",
    "comment.for": "required for: {choices}",
    "no_value": "Choose…",
    "by": "You answer as {name}.",
    "due": "Answer by {time}.",
    "left": "in {time}",
    "answers": "{received} of {expect} answers are there.",
    "errors": "Please correct your answer:",
    "error.required": "{field}: is required",
    "recorded": "Your answer is recorded.",
    "answered": "This was answered.",
    "answered.text": "Nothing more can be changed here.",
    "other": "Another answer came before yours, and that one counts.",
    "given": "{choice}, {time}",
    "given.by": "{choice}, by {name}, {time}",
    "expired": "It is too late to answer.",
    "expired.text": "The time to answer was over at {time}.",
    "void": "No answer is needed any more.",
    "void.text": "The job was canceled or restarted. If it asks again, the question has another address.",
    "unknown": "Nothing is asked at this address.",
    "unknown.text": (
        "Check that you have the whole address. Questions are deleted some time after their answer."
    ),
    "no_form": "This address is not for people.",
    "no_form.text": "Another system sends its answer here.",
    "slow": "Please wait a minute.",
    "slow.text": "Too many unknown addresses were opened from your network. Then load this page again.",
    "login": "Please log in to see this question.",
    "login.text": "Only people with a login answer it.",
    "login.go": "Log in",
    "forbidden": "You may not answer this.",
    "forbidden.text": "{name} lacks the right to operate. Ask an administrator for the role of an operator.",
    "stale": "Nothing was recorded.",
    "stale.text": "Your login changed since you opened the page. Load it again, then answer.",
    "away": "This does not work at the moment.",
    "away.text": "Load this page in a moment: it then shows whether your answer was recorded.",
    "continue": "Continue",
    "language": "Language",
}
_JA: Final = {
    "approve": "承認する",
    "reject": "却下する",
    "comment": "コメント",
    "optional": "任意",
    "required": "必須",
    "comment.for": "次の場合は必須: {choices}",
    "no_value": "選択してください",
    "by": "{name} として回答します。",
    "due": "回答期限: {time}",
    "left": "あと {time}",
    "answers": "{expect} 件中 {received} 件の回答があります。",
    "errors": "回答を修正してください:",
    "error.required": "{field}: 必須です",
    "recorded": "回答を記録しました。",
    "answered": "回答済みです。",
    "answered.text": "ここではもう変更できません。",
    "other": "先に別の回答があり、そちらが有効です。",
    "given": "{choice}、{time}",
    "given.by": "{choice}、{name}、{time}",
    "expired": "回答期限を過ぎています。",
    "expired.text": "回答期限は {time} でした。",
    "void": "回答は不要になりました。",
    "void.text": "処理が取り消されたか、やり直されました。再び確認が必要な場合は、別のアドレスで届きます。",
    "unknown": "このアドレスに質問はありません。",
    "unknown.text": "アドレスが最後まで正しいか確認してください。回答済みの質問は、しばらくすると削除されます。",
    "no_form": "このアドレスは人が使うものではありません。",
    "no_form.text": "別のシステムがここに応答を送ります。",
    "slow": "しばらくお待ちください。",
    "slow.text": "不明なアドレスが多数開かれました。1 分ほど待ってから再読み込みしてください。",
    "login": "この質問を見るにはログインしてください。",
    "login.text": "ログインした人だけが回答できます。",
    "login.go": "ログイン",
    "forbidden": "この質問に回答する権限がありません。",
    "forbidden.text": "{name} には操作の権限がありません。管理者にオペレーターの役割を依頼してください。",
    "stale": "記録されませんでした。",
    "stale.text": "ページを開いた後にログインが変わりました。再読み込みして、もう一度回答してください。",
    "away": "現在利用できません。",
    "away.text": "少し待ってから再読み込みしてください。回答が記録されたかどうかが表示されます。",
    "continue": "続ける",
    "language": "言語",
}
TEXTS: Final[Mapping[str, Mapping[str, str]]] = {"en": _EN, "ja": _JA}

# Japanese texts for the domain's messages about broken rules. Messages that are missing here are shown in English.
_RULES_JA: Final = (
    (r"is required", "必須です"),
    (r"must be of the type integer", "整数を入力してください"),
    (r"must be of the type number", "数値を入力してください"),
    (r"must be one of .*", "一覧から選んでください"),
    (r"must be a date such as 2026-11-21", "2026-11-21 のような日付を入力してください"),
    (r"must be a mail address", "メールアドレスを入力してください"),
    (r"must be an address that .*", "http:// または https:// で始まるアドレスを入力してください"),
    (r"must have (\d+) to (\d+) characters", r"\1～\2 文字で入力してください"),
    (r"at most (\d+) characters", r"\1 文字以内で入力してください"),
    (r"must be at least (.+)", r"\1 以上にしてください"),
    (r"must be at most (.+)", r"\1 以下にしてください"),
)


_UNITS_JA: Final = {"s": "秒", "min": "分", "h": "時間", "days": "日"}


def length_text(language: str, ms: int) -> str:
    """Return a length of time in one unit, such as `23 h`."""
    text = about(ms)
    if language == "ja":
        count, _, unit = text.partition(" ")
        return f"{count} {_UNITS_JA[unit]}"
    return text


def language_of(accepted: str, asked: str | None) -> str:
    """Return the language of a page: the requested one, or else the first supported one in `Accept-Language`."""
    if asked is not None and asked in LANGUAGES:
        return asked
    found: list[tuple[float, str]] = []
    for entry in accepted.split(",")[:20]:
        name, _, weight = entry.strip().lower().partition(";")
        try:
            share = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            share = 0.0
        if (language := name.partition("-")[0]) in LANGUAGES and share > 0:
            found.append((-share, language))
    return min(found, key=lambda one: one[0])[1] if found else "en"


def rule_text(language: str, rule: str) -> str:
    """Translate a message of the domain about an invalid field."""
    if language == "ja":
        for pattern, text in _RULES_JA:
            if match := re.fullmatch(pattern, rule):
                return match.expand(text)
    return rule
