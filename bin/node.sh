# Runs `node ARGS…` on the Node in the PATH or, if that is older than 24.14, on the one that npm has installed.
file=$(readlink -f "$0")
root=${file%/bin/*}

fail() {
  echo "$1" >&2
  exit 1
}

[ -e "$root/node_modules/.package-lock.json" ] || fail "The dependencies are missing: run \`npm ci\` in $root first."
case $1 in
  node_modules/* | packages/*)
    [ -e "$root/node_modules/vitest" ] || fail "The development dependencies are missing: run \`npm ci\` in $root first."
    ;;
esac
# Compiled code halves the time to start, if the directory can be written.
export NODE_COMPILE_CACHE="${NODE_COMPILE_CACHE:-$root/node_modules/.cache/compiled}"
# Node forgets which signals are ignored, as SIGHUP is by nohup: the program gets their names.
IGNORED_SIGNALS=
for signal in HUP INT TERM; do
  { sh -c "kill -$signal \$\$"; } 2>/dev/null && IGNORED_SIGNALS="$IGNORED_SIGNALS SIG$signal"
done
export IGNORED_SIGNALS
for node in node "$root"/node_modules/node-*/bin/node; do
  found=$("$node" --version 2>&1)
  case $found in
    v24.1[4-9].* | v24.[2-9][0-9].* | v2[5-9].* | v[3-9][0-9].*) exec "$node" "$@" ;;
  esac
done
fail "Install Node 24.14 or later. The one that npm installs does not run here: $found"
