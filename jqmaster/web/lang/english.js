/** English, as one module: what is loaded when the reader's language is English. */
import shell from "./en.js";
import audit from "./en_audit.js";
import batches from "./en_batches.js";
import calendars from "./en_calendars.js";
import challenges from "./en_challenges.js";
import definitions from "./en_definitions.js";
import events from "./en_events.js";
import forms from "./en_forms.js";
import incidents from "./en_incidents.js";
import lists from "./en_lists.js";
import namespaces from "./en_namespaces.js";
import notices from "./en_notices.js";
import operations from "./en_operations.js";
import personalData from "./en_personal_data.js";
import statistics from "./en_statistics.js";
import targets from "./en_targets.js";

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
  ...personalData,
  ...statistics,
  ...targets,
};
