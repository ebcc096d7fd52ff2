/** Japanese: forms and dialogs of every page. */
export default {
  "confirm.back": "戻る",
  "confirm.type": "確認のため {count} と入力してください",
  "form.conflict": "編集中に他のユーザーが変更しました",
  "form.conflict.text": "項目ごとに残す値を選んでから保存してください。",
  "form.field": "項目",
  "form.opened": "開いたときの値",
  "form.mine": "自分の値",
  "form.theirs": "保存済みの値",
  "form.saved": "保存しました: {what}",
  "form.unchanged": "変更がないため、何も保存していません。",
  "form.discard.ask": "保存していない変更があります。",
  "form.discard": "変更を破棄",
  "form.keep_editing": "編集を続ける",
  "form.discarded": "{title}: 保存していない変更は破棄されました。",
  "constraints.create": "制約を作成",
  "constraints.name.none": "名前を入力してください。",
  "constraints.name.rule": "英字、数字、_ . : - を 1～100 文字",
  "constraints.done.created": "制約 {name} を作成しました。",
  "constraints.done.changed": "制約 {name} を保存しました。",
  "constraints.done.value": "{value} の制限を保存しました。",
  "constraints.preview.invalid": "正しいマッチャーを入力すると、一致するジョブが表示されます。",
  "enqueue.forbidden":
    "ジョブを投入する権限がありません。管理者にオペレーターのロール、または push スコープのトークンを依頼してください。",
  "enqueue.no_worker":
    "{name} を実行できる稼働中のワーカーがありません。ジョブはワーカーが現れるまで待機します。",
};
