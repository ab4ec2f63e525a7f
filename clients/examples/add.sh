#!/usr/bin/env bash
# Add two numbers, a whole environment of curl and jq: RFTWEB_ADDRESS=http://… RFTWEB_TOKEN=rft_usr_… bash add.sh
set -euo pipefail
ask() {  # METHOD PATH [BODY]: the document. Whatever is refused for now is asked again when its Retry-After says.
  curl --silent --show-error --fail-with-body --max-time 90 --retry 100000 --retry-connrefused --request "$1" ${3:+--data "$3"} \
    -H "Authorization: Bearer $RFTWEB_TOKEN" -H 'Content-Type: application/json' "$RFTWEB_ADDRESS/api/v1/$2" | jq --slurp last
}
turn() {  # EPISODE NUMBER BODY: how the turn stands once the policy has acted
  local said
  said=$(ask POST "episodes/$1/turns/" "$3")
  while jq --exit-status '.action == null and .state == "policy"' <<< "$said" > /dev/null; do
    sleep 1
    said=$(ask GET "episodes/$1/turns/$2/")
  done
  echo "$said"
}

ask POST environments/ '{"name": "add", "version": "1", "turn_limit": 2}'
for ((game = 1; ; game++)); do
  episode=$(ask POST environments/add/episodes/ "{\"key\": \"$HOSTNAME $$ $game\"}")
  id=$(jq .id <<< "$episode")
  a=$(jq '.seed % 10 + 1' <<< "$episode") b=$(jq '.seed % 7 + 2' <<< "$episode")  # the same seed asks the same
  said=$(turn "$id" 0 "{\"number\": 0, \"observation\": \"$a + $b =\"}") || continue  # it has ended: 410
  jq --exit-status '.action != null' <<< "$said" > /dev/null || continue
  right=$(jq --argjson sum $((a + b)) '[.action | scan("[0-9]+") | tonumber] | if .[0] == $sum then 1 else 0 end' <<< "$said")
  turn "$id" 1 "{\"number\": 1, \"observation\": \"It is $((a + b)).\", \"reward\": $right, \"done\": true}" || continue
done
