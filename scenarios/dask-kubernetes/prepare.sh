#!/usr/bin/env bash
# Installs dask-kubernetes from the Python package registry into the cache folder $1, with the CRDs and the RBAC that
# its authors ship in the wheel. Does nothing when that has been done before.
set -euo pipefail
version=2026.3.0
home="$1/dask-kubernetes-$version"
[ -e "$home/ready" ] && exit 0
rm -rf "$home"
mkdir -p "$home/install"
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check "dask-kubernetes==$version"
"$home/venv/bin/python" - "$home/install" <<'PY'
"""Copies the CRDs, and renders the few template lines of the chart's RBAC as Helm would with its default values."""
import pathlib
import re
import shutil
import sys

import dask_kubernetes

chart = pathlib.Path(dask_kubernetes.__file__).parent / "operator/deployment/helm/dask-kubernetes-operator"
out = pathlib.Path(sys.argv[1])
for crd in sorted((chart / "crds").glob("*.yaml")):
    shutil.copy(crd, out / crd.name)
for name in ("serviceaccount", "clusterrole", "clusterrolebinding"):
    text = (chart / "templates" / f"{name}.yaml").read_text()
    text = re.sub(r'{{ include "dask_kubernetes_operator.serviceAccountName" . }}', "dask-kubernetes-operator", text)
    text = text.replace("{{ .Release.Namespace }}", "default")
    # What is left are conditions that the default values make true, and labels that they leave out.
    lines = [line for line in text.splitlines() if "{{" not in line and line.strip() not in ("labels:", "annotations:")]
    (out / f"{name}.yaml").write_text("\n".join(lines) + "\n")
PY
touch "$home/ready"
