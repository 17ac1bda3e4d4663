#!/bin/sh
# certificates.sh [HOST]: creates a CA in ./certs, a certificate for each node of EventStoreDB, and one for clients of HOST.
# Existing files are kept. Each certificate expires two weeks before the one after it. Keep certs/ca.key elsewhere: it signs new certificates.
set -eu
umask 022
host=${1:-localhost}
mkdir -p certs/ca && chmod 700 certs && cd certs

[ -f ca.key ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=plant-store CA' \
  -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca/ca.crt

# certificate DIRECTORY COMMON_NAME SUBJECT_ALTERNATIVE_NAMES DAYS
certificate() {
  [ ! -f "$1/node.crt" ] || return 0
  mkdir -p "$1"
  printf '%s\n' "subjectAltName=$3" extendedKeyUsage=serverAuth,clientAuth keyUsage=critical,digitalSignature,keyEncipherment >extensions
  openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$1/node.key" -out request
  openssl x509 -req -in request -CA ca/ca.crt -CAkey ca.key -days "$4" -extfile extensions -out "$1/node.crt"
  cat "$1/node.crt" "$1/node.key" >"$1/node.pem" # as HAProxy reads it
  chmod 644 "$1"/* # the users of the containers read them; certs itself is closed to others
  rm extensions request
}

for i in 1 2 3; do
  certificate eventstore-$i eventstoredb-node "DNS:eventstore-$i,DNS:localhost,IP:127.0.0.1" $((323 + 14 * (i - 1)))
done
certificate proxy "$host" "DNS:$host" 365
