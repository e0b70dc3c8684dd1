#!/usr/bin/env bash
# Makes the specimen's image in the local container engine.
#
#   image.sh TARGET_DIRECTORY PROFILE
#
# TARGET_DIRECTORY is where the program lies (target/debug or target/release). It is built first, unless
# RECONVERGE_NO_BUILD is set.
set -euo pipefail
target=$(cd "$1" && pwd) profile=$2
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${RECONVERGE_NO_BUILD:-}" ]; then
  (cd "$here" && cargo build --quiet --profile "$profile" --bin widget-operator --target-dir "$target/..")
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/operator"

# The program with the libraries that it is linked with, and nothing else.
cp "$target/widget-operator" "$work/operator/"
strip --strip-debug "$work/operator/widget-operator" 2>/dev/null || true
ldd "$target/widget-operator" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$work/operator$(dirname "$library")"
  cp -L "$library" "$work/operator$library"
done
printf 'FROM scratch\nCOPY . /\nENTRYPOINT ["/widget-operator"]\n' >"$work/operator.dockerfile"
docker build --quiet -t reconverge/widget-operator:local -f "$work/operator.dockerfile" "$work/operator" >/dev/null
echo reconverge/widget-operator:local
