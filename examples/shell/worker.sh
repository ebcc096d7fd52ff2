#!/usr/bin/env bash
# A worker in bash, with curl and jq, that polls for jobs in JSON. It is slow but complete: it handles cancellation, leases,
# drains, detachment and its own end.
#
#   JQMASTER_URL=http://127.0.0.1:8080 examples/shell/worker.sh
#   jqmaster conformance worker --run "examples/shell/worker.sh"
#
# It stores each claim in a folder that is named by the token of the claim. The files in it are:
#   job       the offer            lease     ms of uptime at which it must have stopped    pid     of the handler
#   result    what was reported    stopping  lost, canceled, timeout or handed_back        named   an answered heartbeat named it
set -u
shopt -s nullglob
MASTER=${JQMASTER_URL:-http://127.0.0.1:8080}
MAX_JOBS=4
GRACE_MS=2000
HOME_DIR=$(mktemp -d)
mkdir "$HOME_DIR/claims"
cd "$HOME_DIR" || exit 1

# --- the handlers: they get the argument as JSON, and print the result; exit code 1: retry, 2: fail for good

handle() { # NAME
  case $1 in
    conformance.echo) cat ;;
    conformance.sleep) exec sleep "$(jq -r .)" ;;
    conformance.fail)
      local argument; argument=$(cat)
      jq -r .message <<< "$argument" >&2
      [ "$(jq .retry <<< "$argument")" = true ] && return 1
      return 2 ;;
  esac
}
NAMES='["conformance.echo","conformance.sleep","conformance.fail"]'

# --- time: the kernel's uptime also counts while the machine sleeps

now_ms() { local up rest; read -r up rest < /proc/uptime; up=${up/./}; NOW=$((10#$up * 10)); }

# --- calls: the status is in STATUS, the body in BODY; 000: no answer

call() { # METHOD PATH BODY TIMEOUT_S
  local header=(-H 'Content-Type: application/json' -H 'Accept: application/json')
  [ -n "${JQMASTER_TOKEN:-}" ] && header+=(-H "Authorization: Bearer $JQMASTER_TOKEN")
  local answer
  # Send the body through a pipe, because the length of a command's argument is limited.
  answer=$(printf '%s' "$3" | curl -sS --max-time "$4" -X "$1" "${header[@]}" --data-binary @- \
    -w '\n%{http_code} %header{retry-after}' "$MASTER$2" 2> /dev/null)
  local last=${answer##*$'\n'}
  BODY=${answer%$'\n'*}
  read -r STATUS RETRY_AFTER <<< "$last"
  STATUS=${STATUS:-000} RETRY_AFTER=${RETRY_AFTER:-0}
}
field() { jq -r "$1" <<< "$BODY"; }
pause() { nap "$(($1)).$((RANDOM % 900 + 100))"; }

# --- the store's time: it is contained in each answer, and the round trip of the call yields its bounds

learn() { # SENT_MS STORE_MS FENCE
  local low high; now_ms
  low=$(($2 - NOW - 10)) high=$(($2 + 1 - $1 + 10)) # the uptime counts in steps of 10 ms
  local old_low='' old_high='' stale=0
  [ -f bounds ] && read -r old_low old_high stale _ < bounds
  if [ -n "$old_low" ] && [ "$high" -lt "$old_low" ]; then
    stale=$3 # the store's clock was set back: earlier offers are too late
  elif [ "$3" -lt "$stale" ]; then
    stale=$3
  fi
  echo "$low $high $stale $NOW" > bounds.new && mv bounds.new bounds
}

# --- the claims

# These functions run all the time, so they return values in variables: a process for each call would take most of the
# worker's time.
claims() { CLAIMS=(claims/*/job); CLAIMS=("${CLAIMS[@]%/job}"); CLAIMS=("${CLAIMS[@]#claims/}"); }
running() {
  local token
  claims
  RUNNING=()
  for token in "${CLAIMS[@]}"; do [ -f "claims/$token/ended" ] || RUNNING+=("$token"); done
}
is_draining() { [ -f drain ] || [ -f leaving ]; }
room() { running; if is_draining; then ROOM=0; else ROOM=$((MAX_JOBS - ${#RUNNING[@]})); fi; }
held() { VALUE=${2:-}; [ -f "$1" ] && read -r VALUE < "$1"; } # FILE DEFAULT
# Sleep without starting a process: read from a pipe into which nothing is ever written.
exec {silence}<> <(:)
nap() { read -r -t "$1" -u "$silence"; }

register() {
  local sent tries=0
  while :; do
    now_ms; sent=$NOW
    call POST /api/workers "{\"url\":null,\"names\":$NAMES,\"max_jobs\":$MAX_JOBS,\"secret\":\"$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')\",\"node_id\":\"$HOSTNAME\",\"pid\":$$,\"labels\":{},\"version\":\"1\"}" 10
    if [ "$STATUS" = 201 ]; then
      rm -f drain
      learn "$sent" "$(field .store_time_ms)" 0
      field '"\(.heartbeat_interval_s) \(.lease_s * 1000 | floor)"' > pace
      field .epoch > epoch
      field .worker_id > id.new && mv id.new id
      echo "registered as $(cat id)" >&2
      return
    fi
    echo "not registered: $STATUS $BODY" >&2
    pause $((RETRY_AFTER + (tries++ > 3)))
  done
}

rejoin() {
  local token
  running
  for token in "${RUNNING[@]}"; do stop "$token" lost; done
  for token in "${CLAIMS[@]}"; do # lost claims are not named to a master that does not know them
    held "claims/$token/stopping"
    [ "$VALUE" = lost ] && : > "claims/$token/named"
  done
  while running && [ ${#RUNNING[@]} -gt 0 ]; do nap 0.05; done
  register
}

# --- offers

judge() { # the offer in JOB, the epoch of the answer in $1; the verdict in VERDICT
  local name phase token fence not_after lease_until job_id low high stale heard at interval lease_ms
  read -r name phase token fence not_after lease_until job_id timeout_ms <<< \
    "$(jq -r '"\(.name) \(.phase) \(.token) \(.fence) \(.not_after_ms) \(.lease_until_ms) \(.job_id) \(.timeout * 1000 | floor)"' <<< "$JOB")"
  read -r low high stale heard < bounds
  read -r interval lease_ms < pace
  read -r EPOCH < epoch
  room
  now_ms; at=$NOW
  local latest=$((at + high)) margin=$((lease_ms / 10))
  TOKEN=$token JOB_ID=$job_id VERDICT=accepted
  if [ -d "claims/$token" ]; then VERDICT=seen
  elif [ "$1" -lt "$EPOCH" ]; then VERDICT=stale_epoch
  elif [[ $NAMES != *"\"$name\""* ]] || [ "$phase" != run ]; then VERDICT=unknown_name
  elif is_draining; then VERDICT=draining
  # The store's clock may have been set while this process was suspended.
  elif [ $((at - heard)) -gt "$lease_ms" ]; then VERDICT=too_late
  elif [ "$latest" -gt "$not_after" ] || [ $((lease_until - latest - margin)) -le 0 ] || [ "$fence" -le "$stale" ]; then VERDICT=too_late
  elif [ "$ROOM" -le 0 ]; then VERDICT=busy
  else
    local other
    for other in "${RUNNING[@]}"; do
      [[ $(< "claims/$other/job") == *"\"job_id\":\"$job_id\""* ]] && VERDICT=duplicate
    done
  fi
  [ $VERDICT = accepted ] || return
  # Rename the directory when it is complete, so that a heartbeat names either a whole claim or none.
  mkdir "new.$token"
  echo "$JOB" > "new.$token/job"
  echo $((at + lease_until - latest - margin)) > "new.$token/lease"
  echo $((at + timeout_ms)) > "new.$token/deadline"
  echo "{\"job_id\":\"$job_id\",\"token\":\"$token\"}" > "new.$token/claim"
  mv "new.$token" "claims/$token"
  run "$token" "$name" &
}

# --- jobs

run() { # TOKEN NAME
  local folder="$HOME_DIR/claims/$1" code why
  # A separate process group, so that all processes that the handler starts are stopped with it.
  set -m
  jq .argument "$folder/job" > "$folder/argument"
  (handle "$2" < "$folder/argument" > "$folder/out" 2> "$folder/err") &
  echo $! > "$folder/pid.new" && mv "$folder/pid.new" "$folder/pid"
  wait $! 2> /dev/null
  code=$?
  set +m
  why=$(cat "$folder/stopping" 2> /dev/null)
  case $why in
    canceled | handed_back) ending "$1" "{\"type\":\"$why\"}" ;;
    timeout) failure "$1" timeout true "longer than its timeout" ;;
    lost) ;;
    *) if [ $code = 0 ]; then
         ending "$1" "$(jq -cs '{type:"success",result:(if length==0 then null else .[0] end)}' "$folder/out")"
       else
         failure "$1" other "$([ $code = 2 ] && echo false || echo true)" "$(tail -c 1000 "$folder/err")"
       fi ;;
  esac
  touch "$folder/ended"
}

failure() { # TOKEN REASON RETRY MESSAGE
  ending "$1" "$(jq -cn --arg reason "$2" --argjson retry "$3" --arg message "$4" \
    '{type:"failure",reason:$reason,should_retry:$retry,error:null,message:$message,retry_after:null}')"
}

ending() { # TOKEN JSON
  local at; at=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
  printf '%s' "$2" | jq -c --slurpfile job "claims/$1/job" --arg at "$at" \
    '{job_id: $job[0].job_id, token: $job[0].token, finished_at: $at} + .' > "claims/$1/result.new"
  mv "claims/$1/result.new" "claims/$1/result"
}

stop() { # TOKEN WHY
  local folder="claims/$1"
  [ -f "$folder/ended" ] && return
  [ -f "$folder/stopping" ] && [ "$2" != lost ] && return
  echo "$2" > "$folder/stopping"
  until held "$folder/pid"; do nap 0.01; done
  kill -KILL -- "-$VALUE" 2> /dev/null
}

watch() {
  local token
  while :; do
    nap 0.05
    running
    now_ms
    for token in "${RUNNING[@]}"; do
      held "claims/$token/lease" "$NOW" && [ "$NOW" -ge "$VALUE" ] && stop "$token" lost
      held "claims/$token/deadline" && [ "$NOW" -ge "$VALUE" ] && stop "$token" timeout
    done
  done
}

# --- results

send_results() {
  local tries=0 token batch
  while :; do
    batch=''
    claims
    for token in "${CLAIMS[@]}"; do [ -f "claims/$token/result" ] && batch="$batch $token"; done
    if [ -z "$batch" ]; then nap 0.05; continue; fi
    # Send reports one by one, so that only the refused ones are replaced.
    for token in $batch; do
      call POST "/api/workers/$(cat id)/results" "{\"results\":[$(cat "claims/$token/result")]}" 10
      case $STATUS in
        200) mv "claims/$token" "done.$token" && rm -rf "done.$token"; tries=0 ;;
        404 | 000 | 401 | 403 | 408 | 425 | 429 | 5??) pause $((RETRY_AFTER + (tries++ > 5))); break ;;
        *) failure "$token" other false "the master refused the result: $(field .detail)" ;;
      esac
    done
  done
}

# --- heartbeats

beat() { # MORE FIELDS; the answer is in BODY, its status in STATUS
  local sent running='' token names='' low high stale interval lease_ms
  read -r interval lease_ms < pace
  read -r low high stale _ < bounds
  room
  for token in "${CLAIMS[@]}"; do
    held "claims/$token/stopping"
    if [ "$VALUE" = lost ]; then
      # Name it once more if no answered heartbeat has named it, because it had begun.
      if [ -f "claims/$token/named" ]; then
        [ -f "claims/$token/ended" ] && mv "claims/$token" "done.$token" && rm -rf "done.$token"
        continue
      fi
    fi
    names="$names $token"
    held "claims/$token/claim"
    running="$running${running:+,}$VALUE"
  done
  now_ms; sent=$NOW
  held id
  call POST "/api/workers/$VALUE/heartbeat" \
    "{\"running\":[$running],\"free\":$ROOM,\"as_of_ms\":$((sent + low))$1}" \
    "$(((lease_ms + 3999) / 4000))"
  [ "$STATUS" = 200 ] || return
  local store until drain fence epoch lost cancel
  IFS='|' read -r store until fence drain DETACHED interval lease_ms epoch lost cancel <<< "$(field \
    '[.store_time_ms, .lease_until_ms, .fence // 0, .drain, .detached, .heartbeat_interval_s, (.lease_s * 1000 | floor), .epoch,
      ([.lost[].token] | join(" ")), ([.cancel[].token] | join(" "))] | map(tostring) | join("|")')"
  learn "$sent" "$store" "$fence"
  echo "$interval $lease_ms" > pace
  newest "$epoch"
  if [ "$drain" = true ]; then : > drain; elif [ -f drain ]; then rm -f drain; fi
  for token in $names; do
    [ -d "claims/$token" ] || continue
    : 2> /dev/null > "claims/$token/named"
    if [[ " $lost " == *" $token "* ]]; then stop "$token" lost
    elif [ "$until" -gt "$store" ]; then echo $((sent + until - store - (until - store) / 10)) > "claims/$token/lease.new" && mv "claims/$token/lease.new" "claims/$token/lease"
    fi
  done
  for token in $cancel; do [ -d "claims/$token" ] && stop "$token" canceled; done
}

newest() { held epoch 0; [ "$1" -gt "$VALUE" ] && echo "$1" > epoch; }

heartbeats() {
  while :; do
    beat ''
    if [ "$STATUS" = 404 ]; then rejoin; continue; fi
    if [ "$STATUS" = 200 ] && [ "$DETACHED" = true ]; then
      local n may=no
      for n in 1 2 3; do
        beat ',"asks_to_continue":true'
        [ "$STATUS" = 200 ] && [ "$DETACHED" = false ] && may=yes && break
        nap 0.3
      done
      [ $may = yes ] || rejoin
    fi
    local interval lease_ms; read -r interval lease_ms < pace
    nap "$interval"
  done
}

# --- calls for jobs

ask() {
  local refused='' poll_id tries=0 id
  poll_id=$RANDOM$RANDOM$RANDOM
  while :; do
    room
    if [ "$ROOM" -le 0 ]; then nap 0.05; continue; fi
    held id; id=$VALUE
    echo "$poll_id" > poll
    call POST "/api/workers/$id/claim" "{\"max\":$ROOM,\"wait\":20,\"poll_id\":\"$poll_id\",\"refused\":[$refused]}" 25
    case $STATUS in
      200)
        refused='' tries=0 poll_id=$RANDOM$RANDOM$RANDOM
        local epoch drain JOB
        # The first line is about the answer. Each of the other lines is a job.
        { read -r epoch drain
        [ "$drain" = true ] && : > drain
        while read -r JOB; do
          judge "$epoch"
          case $VERDICT in
            accepted | seen | duplicate) ;;
            *) refused="$refused${refused:+,}{\"job_id\":\"$JOB_ID\",\"token\":\"$TOKEN\"}" ;;
          esac
        done; } < <(jq -rc '"\(.epoch) \(.drain)", (.jobs[] | tojson)' <<< "$BODY")
        newest "$epoch" ;;
      404) nap 0.2 ;; # the answer to the heartbeat says the same
      429) [ "$(field .code)" = poll_replaced ] && poll_id=$RANDOM$RANDOM$RANDOM; pause "$RETRY_AFTER" ;;
      *) pause $((RETRY_AFTER + (tries++ > 5))) ;;
    esac
  done
}

withdraw() { call POST "/api/workers/$(cat id)/claim" "{\"max\":1,\"poll_id\":\"$(cat poll)\",\"withdraw\":true}" 3; }

# --- start and end

finish() {
  trap '' TERM INT
  : > leaving
  withdraw
  local token ends
  now_ms; ends=$((NOW + GRACE_MS))
  while running && now_ms && [ ${#RUNNING[@]} -gt 0 ] && [ "$NOW" -lt "$ends" ]; do nap 0.05; done
  for token in "${RUNNING[@]}"; do stop "$token" handed_back; done
  while claims && [ ${#CLAIMS[@]} -gt 0 ]; do nap 0.05; done
  call DELETE "/api/workers/$(cat id)" '' 3
  kill $PARTS 2> /dev/null
  rm -rf "$HOME_DIR"
  exit 0
}

register
PARTS=''
for part in watch send_results heartbeats ask; do $part & PARTS="$PARTS $!"; done
trap finish TERM INT
while :; do wait; done
