#!/usr/bin/env bash
# Builds the image of prometheus-operator that its own manifests name, from its module in the Go module proxy, into the
# local container engine; leaves the manifests, as published, in the cache folder $1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/../prometheus-operator/prepare.sh" "$1"
version=v0.85.0
home="$1/prometheus-operator-$version"
source=$(cd "$home/module" && go list -m -f '{{.Dir}}' github.com/prometheus-operator/prometheus-operator)
mkdir -p "$home/in-cluster/image"
if [ ! -e "$home/in-cluster/image/operator" ]; then
  # Without libc, since the image has nothing else in it.
  (cd "$home/module" && CGO_ENABLED=0 go build -ldflags "-s -w" -o "$home/in-cluster/image/operator.new" \
    github.com/prometheus-operator/prometheus-operator/cmd/operator)
  mv "$home/in-cluster/image/operator.new" "$home/in-cluster/image/operator"
fi
for part in deployment service; do
  cp "$source/example/rbac/prometheus-operator/prometheus-operator-$part.yaml" "$home/in-cluster/"
done
chmod -R u+w "$home/in-cluster"
image=$(sed -n 's/^ *image: *//p' "$home/in-cluster/prometheus-operator-deployment.yaml" | head -n 1)
printf 'FROM scratch\nCOPY operator /bin/operator\nUSER 65534\nENTRYPOINT ["/bin/operator"]\n' |
  docker build --quiet -t "$image" -f - "$home/in-cluster/image" >/dev/null
