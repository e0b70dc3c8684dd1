#!/usr/bin/env bash
# Builds prometheus-operator from the Go module proxy into the cache folder $1, with the CRDs and the RBAC of its
# module. Does nothing when that has been done before.
set -euo pipefail
version=v0.85.0
home="$1/prometheus-operator-$version"
module=github.com/prometheus-operator/prometheus-operator
[ -e "$home/ready" ] && exit 0
rm -rf "$home"
mkdir -p "$home/module" "$home/install"
cd "$home/module"
go mod init reconverge.dev/prometheus-operator >/dev/null 2>&1
go get -tool "$module/cmd/operator@$version"
go build -ldflags "-s -w" -o "$home/operator" "$module/cmd/operator"
source=$(go list -m -f '{{.Dir}}' "$module")
cp "$source"/example/prometheus-operator-crd/*.yaml "$home/install/"
for part in service-account cluster-role cluster-role-binding; do
  cp "$source/example/rbac/prometheus-operator/prometheus-operator-$part.yaml" "$home/install/"
done
chmod -R u+w "$home/install"
touch "$home/ready"
