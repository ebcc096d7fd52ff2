/** Japanese: the search for personal data, and its erasure. */
export default {
  "nav.personal_data": "個人データ",
  "personal.text":
    "ジョブのデータと、ジョブが残したデータから個人に関するものを探し、終了したジョブから消去します。",
  "personal.texts": "個人を特定する文字列",
  "personal.texts.hint":
    "1 行に 1 つ、それぞれ 3 文字以上。メールアドレス、氏名、顧客番号など。大文字と小文字、全角と半角は区別しません。",
  "personal.reason": "理由",
  "personal.reason.hint":
    "監査ログに記録されます。検索した文字列は記録されません。個人名は入力しないでください。",
  "personal.search": "検索",
  "personal.stop": "中止",
  "personal.stopped": "検索を中止しました。検索していないデータがあります。",
  "personal.found": "{count} 件見つかりました",
  "personal.progress": "約 {total} 件中 {done} 件のジョブを検索しました",
  "personal.bar": "検索したジョブ",
  "personal.none": "検索できる範囲では見つかりませんでした。",
  "personal.none.yet": "まだ見つかっていません。",
  "personal.results": "見つかった対象",
  "personal.act": "操作",
  "personal.what": "種類",
  "personal.object": "対象",
  "personal.where": "場所",
  "personal.more": "ほか {count} か所",
  "personal.nothing_left": "消去済み",
  "personal.place.job": "ジョブ",
  "personal.place.event": "イベント",
  "personal.place.failure_group": "失敗グループ",
  "personal.place.notice": "通知",
  "personal.extent": "検索した範囲",
  "personal.kind.jobs": "ジョブ",
  "personal.kind.log_lines": "ログの行",
  "personal.kind.events": "イベント",
  "personal.kind.failure_groups": "失敗グループ",
  "personal.kind.notices": "通知",
  "personal.not_searched": "検索していない範囲",
  "personal.redacted": "伏せられた値 (redact_paths):",
  "personal.unread.sealed_values":
    "暗号化された値 {count} 件(ワーカーだけが読めます)",
  "personal.unread.damaged_jobs": "破損していて読めないジョブ {count} 件",
  "personal.unread.archived_logs":
    "アーカイブにあるこれらのジョブのログ {count} 件",
  "personal.not.the archive of logs, and logs of deleted jobs":
    "ログのアーカイブと、削除済みジョブのログ",
  "personal.not.backups, exports and other copies of the store":
    "バックアップ、エクスポート、その他のストアのコピー",
  "personal.not.the audit log, which contains reasons and changed documents":
    "監査ログ(理由や変更内容が残ります)",
  "personal.not.definitions, callbacks of batches, calendars, targets, and constraints with the values of their keys":
    "定義、バッチのコールバック、カレンダー、ターゲット、制約とそのキーの値",
  "personal.not.arguments of deliveries (webhooks and mails)":
    "配信(Webhook とメール)の引数",
  "personal.not.other namespaces": "ほかの名前空間",
  "personal.not.logs of masters and workers, outside systems, and data that pushers keep":
    "マスターとワーカーのログ、外部システム、ジョブの投入元に残るデータ",
  "personal.erase": "消去",
  "personal.erase.open": "消去",
  "personal.erase.title": "このジョブの値を消去",
  "personal.erase.text":
    "値は [erased] に置き換わり、元に戻せません。ジョブは一覧に残ります。",
  "personal.erase.what": "消去する値",
  "personal.erase.needed":
    "引数やヘッダーの値を消去すると、このジョブは再試行できなくなります。",
  "personal.erase.copies":
    "バックアップとエクスポートには、削除されるまでコピーが残ります。ワーカーと投入元のログにも残ることがあります。",
  "personal.erased": "{count} 個の値を消去しました",
  "personal.job.erased": "消去された値",
  "act.job.erase": "ジョブの値の消去",
  "act.personal_data.search": "個人データの検索",
};
