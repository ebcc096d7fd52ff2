#!/usr/bin/env bash
# A receiver in bash, with jq and openssl. It answers one request on its standard input and output, so any server that
# starts a program for each connection can listen for it: socat, ncat, inetd, or a socket of systemd with Accept=yes.
#
#   export SECRET=$(jqmaster webhooks secret)
#   socat TCP-LISTEN:8004,bind=127.0.0.1,reuseaddr,fork EXEC:examples/targets/receiver.sh
#
#   curl -X PUT localhost:8080/api/targets/texts -H 'Content-Type: application/json' \
#     -d '{"names": ["text.count"], "url": "http://127.0.0.1:8004/", "secret": "'$SECRET'"}'
set -u
export LC_ALL=C # lengths are in bytes

answer() { # STATUS BODY
  printf 'HTTP/1.1 %s -\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
    "$1" "${#2}" "$2"
  exit
}

# --- the request: its fields by lower-case name, and its body

declare -A field=()
read -r -t 10 _method _path _version || exit
while IFS= read -r -t 10 line && line=${line%$'\r'} && [ -n "$line" ]; do
  name=${line%%:*} value=${line#*:}
  field[${name,,}]=${value# }
done
length=${field[content-length]:-0}
[[ $length =~ ^[0-9]{1,7}$ ]] || answer 413 '{"error": "the body is too large"}'
body=
[ "$length" -eq 0 ] || IFS= read -r -t 10 -N "$length" body
[ "${#body}" -eq "$length" ] || exit

# --- its signature, as Standard Webhooks describes it

is_signed() {
  local at=${field[webhook-timestamp]:-0} now key expected one
  now=$(date +%s)
  [[ $at =~ ^[0-9]{1,12}$ ]] && [ $((now - at)) -le 300 ] && [ $((at - now)) -le 300 ] || return 1
  key=$(base64 -d <<< "${SECRET#whsec_}" | od -An -v -tx1 | tr -d ' \n')
  expected=$(printf '%s.%s.%s' "${field[webhook-id]:-}" "$at" "$body" |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
  for one in ${field[webhook-signature]:-}; do
    [ "$one" = "v1,$expected" ] && return 0
  done
  return 1
}
is_signed || answer 401 '{"error": "the signature is missing or wrong"}'

# --- the job. 2xx: success, and the body is the result. 400 and 422: it fails for good. Any other status: it is tried
# again

jq -e . > /dev/null 2>&1 <<< "$body" || answer 400 '{"error": "the body is not JSON"}'
result=$(jq -c '{words: (.text | split(" ") | map(select(. != "")) | length)}' 2> /dev/null <<< "$body") ||
  answer 422 '{"error": "text is missing"}'
# Only the newest delivery of a job may store its result. Compare the fence where you store the result.
answer 200 "$(jq -c --argjson fence "${field[jq-fence]:-0}" '. + {fence: $fence}' <<< "$result")"
