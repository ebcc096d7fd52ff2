/** 日本語: 全ページの文言をまとめたモジュール。 */
import shell from "./ja.js";
import audit from "./ja_audit.js";
import batches from "./ja_batches.js";
import calendars from "./ja_calendars.js";
import challenges from "./ja_challenges.js";
import definitions from "./ja_definitions.js";
import events from "./ja_events.js";
import forms from "./ja_forms.js";
import incidents from "./ja_incidents.js";
import lists from "./ja_lists.js";
import namespaces from "./ja_namespaces.js";
import notices from "./ja_notices.js";
import operations from "./ja_operations.js";
import settings from "./ja_settings.js";
import personalData from "./ja_personal_data.js";
import statistics from "./ja_statistics.js";
import targets from "./ja_targets.js";

export default {
  ...shell,
  ...audit,
  ...batches,
  ...calendars,
  ...challenges,
  ...definitions,
  ...events,
  ...forms,
  ...incidents,
  ...lists,
  ...namespaces,
  ...notices,
  ...operations,
  ...settings,
  ...personalData,
  ...statistics,
  ...targets,
};
