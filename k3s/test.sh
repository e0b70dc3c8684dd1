#!/usr/bin/env bash
# Builds the node, starts it and checks what the harness relies on: that it gets ready, runs pods of local images,
# resolves names, records an audit log, comes back from the death of its parts, and can be stopped and started again.
#
# usage: test.sh [fallback | privileged]    how the container gets its rights; `fallback` needs CAP_SYS_ADMIN alone
set -euo pipefail
cd "$(dirname "$0")"
readonly pod_image=reconverge/node-test:1 later_image=reconverge/node-test:2

case ${1:-fallback} in
  privileged) rights=(--privileged) ;;
  fallback)
    rights=(--cap-add ALL --cap-drop SYS_RESOURCE --security-opt seccomp=unconfined
      --security-opt apparmor=unconfined --security-opt systempaths=unconfined)
    ;;
  *) sed -n 's/^# usage: /usage: /p' "$0" >&2 && exit 2 ;;
esac

scratch=$(mktemp -d)
node=
finish() {
  local status=$?
  if [ -n "$node" ]; then
    ((status == 0)) || docker logs --tail 30 "$node" >&2 || true
    docker rm -fv "$node" >/dev/null
  fi
  docker image rm -f "$pod_image" "$later_image" >/dev/null 2>&1 || true
  rm -rf "$scratch"
  ((status == 0)) || echo "FAILED" >&2
}
trap finish EXIT
trap 'exit 130' INT TERM

kubectl() { docker exec -i "$node" kubectl "$@"; }
now() { date +%s%N; }
passed() { printf 'ok  %6d ms  %s\n' $((($(now) - began) / 1000000)) "$1"; }

# check WHAT COMMAND...: one line for each thing that holds; the first that does not hold ends the test.
check() {
  local what=$1 began
  began=$(now)
  shift
  "$@" || { echo "not ok: $what" >&2 && exit 1; }
  passed "$what"
}

# within SECONDS COMMAND...
within() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

says_ready() { (("$(docker logs "$node" 2>&1 | grep -c 'Node controller sync successful')" >= $1)); }

# What may lie in the container before it starts: authorities, images, manifests, and files that flags name.
create() {
  local k3s="$scratch/files/var/lib/rancher/k3s"
  node=$(docker create "${rights[@]}" -p 127.0.0.1::6443 "$image" server --node-name=node-1 \
    --disable=traefik,servicelb --tls-san=node.test,192.0.2.7 --snapshotter overlayfs \
    --kube-apiserver-arg=audit-policy-file=/etc/audit.yaml --kube-apiserver-arg=audit-log-path=/var/log/audit.log)
  mkdir -p "$scratch"/{root/bin,files/etc} "$k3s"/{agent/images,server/{manifests,tls}}
  docker cp "$node:/usr/bin/busybox" "$scratch/root/bin/busybox" >/dev/null
  tar -C "$scratch/root" -c . | docker import - "$pod_image" >/dev/null
  docker save -o "$k3s/agent/images/pod.tar" "$pod_image"
  printf '%s\n' 'apiVersion: audit.k8s.io/v1' 'kind: Policy' 'rules: [{level: Metadata}]' \
    >"$scratch/files/etc/audit.yaml"
  printf '%s\n' 'apiVersion: v1' 'kind: ConfigMap' 'metadata: {name: early, namespace: default}' \
    >"$k3s/server/manifests/early.yaml"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=own -days 2 \
    -keyout "$k3s/server/tls/server-ca.key" -out "$k3s/server/tls/server-ca.crt" 2>/dev/null
  docker cp "$scratch/files/." "$node:/" >/dev/null
}

start() {
  docker start "$node" >/dev/null
  within 180 says_ready 1
}

# As the harness does it with the images of operators: saved by the engine, imported into the node.
import_image() {
  docker tag "$pod_image" "$later_image"
  docker save "$later_image" | docker exec -i "$node" ctr -n k8s.io images import - >/dev/null
}

deploy() {
  kubectl apply -f - >/dev/null <<YAML
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: $later_image
        imagePullPolicy: Never
        command: [/bin/busybox, httpd, -f, -p, "8080", -h, /etc]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
YAML
  kubectl wait --for=condition=Available --timeout=60s deployment/web >/dev/null
}

# in_pod NAME COMMAND...: runs a command in a new pod and prints what it printed.
in_pod() {
  local name=$1
  shift
  kubectl run "$name" --image="$pod_image" --image-pull-policy=Never --restart=Never \
    --command -- /bin/busybox "$@" >/dev/null
  kubectl wait --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s "pod/$name" >/dev/null || true
  kubectl logs "$name"
}

resolves() {
  in_pod lookup nslookup -type=a kubernetes.default.svc.cluster.local | grep -q 'Address:.*10\.43\.0\.1$'
}
serves() { in_pod fetch wget -q -O - http://web.default.svc/hostname | grep -q '^web-'; }
executes() { kubectl exec deployment/web -- /bin/busybox echo here | grep -q '^here'; }
audited() { docker exec "$node" grep -q '"verb":"create","user":{"username":"system:admin"' /var/log/audit.log; }
applied() { kubectl get configmap early >/dev/null; }
own_authority() {
  kubectl get configmap kube-root-ca.crt -o jsonpath='{.data.ca\.crt}' |
    openssl x509 -noout -subject | grep -q 'CN *= *own'
}
names() {
  docker exec "$node" openssl x509 -noout -ext subjectAltName \
    -in /var/lib/rancher/k3s/server/tls/serving-kube-apiserver.crt | grep -q 'DNS:node.test, IP Address:192.0.2.7'
}

pid_of() { docker exec "$node" cat "/run/k3s/$1.pid"; }
replaced() { [ "$(pid_of "$1")" != "$2" ]; }
api_answers() { kubectl get --raw /readyz >/dev/null 2>&1; }
comes_back() {
  local before
  before=$(pid_of "$1")
  docker exec "$node" kill -9 "$before"
  within 30 replaced "$1" "$before"
  within 60 api_answers
}

grows() {
  kubectl scale deployment/web --replicas=4 >/dev/null
  kubectl rollout status --timeout=60s deployment/web >/dev/null
}

stops() { local from=$SECONDS; docker stop "$node" >/dev/null && ((SECONDS - from < 10)); }
starts_again() {
  docker start "$node" >/dev/null
  within 180 says_ready 2
  kubectl wait --for=condition=Available --timeout=60s deployment/web >/dev/null
}
# ends_with WORDS FLAGS...: that a node with these flags ends with an error, and says so in these words.
ends_with() {
  local words=$1
  shift
  ! docker run --rm "${rights[@]}" "$image" server "$@" 2>"$scratch/said" && grep -q "$words" "$scratch/said"
}

image=$(./build.sh image | tail -n 1)
check "an unknown flag is refused" ends_with 'flag --no-such-flag is not supported' --no-such-flag=1
check "a component that cannot run ends the container and says which" \
  ends_with 'kube-apiserver does not stay up' --kube-apiserver-arg=no-such-flag=1
check "files can be put in before the start" create
check "the node is ready" start
check "a manifest from before the start is applied" applied
check "so is the authority" own_authority
check "an image is imported into the running node" import_image
check "two pods of it are available" deploy
check "a command runs in one" executes
check "a pod of the image from before the start resolves a service's name" resolves
check "a pod reaches another by a service's name" serves
check "--tls-san is in the certificate" names
check "the audit log records" audited
check "kube-apiserver comes back" comes_back kube-apiserver
check "kubelet comes back" comes_back kubelet
check "kube-controller-manager comes back" comes_back kube-controller-manager
check "two more pods are available after that" grows
check "the container stops within ten seconds" stops
check "it starts again, with what it held" starts_again
echo "passed"
