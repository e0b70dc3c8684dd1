#!/bin/bash
# A Kubernetes node in a container, behind the command line of k3s: `k3s server [flags]`.
#
# In: flags of `k3s server` (see usage), certificate authorities that already lie in server/tls, image archives in
# agent/images, manifests in server/manifests. Out: the API on port 6443, /etc/rancher/k3s/k3s.yaml, one log per
# component in /var/log, one process id per component in /run/k3s/NAME.pid.
#
# Guaranteed: "Node controller sync successful" is printed once, when pods can be created and names be resolved. A
# component that ends is started again, so killing one is a fault and not the end; one that cannot stay up ends the
# container, with the end of its log. SIGTERM ends everything within the engine's ten seconds, and the same container
# can be started again with what etcd held.
#
# Not done: more than one node, load balancers, ingress, storage provisioning, network policies, metrics.
set -euo pipefail

readonly data=/var/lib/rancher/k3s run=/run/k3s share=/usr/share/node logs=/var/log
readonly tls=$data/server/tls agent=$data/agent
readonly api_ip=10.43.0.1 pods=10.42.0.0/16 services=10.43.0.0/16

say() { printf 'node: %s\n' "$*" >&2; }

die() {
  say "$*"
  exit 1
}

usage() {
  cat <<'TEXT'
usage: k3s server [flags] | k3s kubectl ... | k3s ctr ...

flags that have an effect, as --flag=value or --flag value:
  --tls-san NAMES                  names or addresses for the serving certificate, separated by commas
  --kube-apiserver-arg K=V         a flag of a component, without its dashes; likewise --kube-controller-manager-arg,
                                   --kube-scheduler-arg, --kube-proxy-arg, --kubelet-arg, --etcd-arg
  --disable NAMES                  `coredns` is left out; whatever else k3s could leave out is not there anyway
  --snapshotter overlayfs|native   how containerd stores what containers write
  --node-name NAME                 instead of the host name
  --write-kubeconfig PATH, --write-kubeconfig-mode MODE
flags of k3s that are accepted because nothing that they turn off is there:
  --cluster-init, --debug, --disable-cloud-controller, --disable-helm-controller, --disable-network-policy,
  --egress-selector-mode, --flannel-backend, --tls-san-security, --token
any other flag is refused.
TEXT
}

# --- the command line ---

node=$HOSTNAME snapshotter=overlayfs sans='' disabled=,
kubeconfig=${K3S_KUBECONFIG_OUTPUT:-/etc/rancher/k3s/k3s.yaml} kubeconfig_mode=${K3S_KUBECONFIG_MODE:-600}
apiserver_args=() controller_args=() scheduler_args=() proxy_args=() kubelet_args=() etcd_args=()

parse() {
  local flag value
  while (($#)); do
    flag=${1%%=*}
    case $flag in
      --cluster-init | --debug | --disable-cloud-controller | --disable-helm-controller | --disable-network-policy | \
        --tls-san-security) shift && continue ;;
    esac
    if [[ $1 == *=* ]]; then
      value=${1#*=}
    elif (($# > 1)); then
      value=$2
      shift
    else
      die "$flag needs a value"
    fi
    shift
    case $flag in
      --tls-san) sans+=,$value ;;
      --kube-apiserver-arg) apiserver_args+=("--$value") ;;
      --kube-controller-manager-arg) controller_args+=("--$value") ;;
      --kube-scheduler-arg) scheduler_args+=("--$value") ;;
      --kube-proxy-arg) proxy_args+=("--$value") ;;
      --kubelet-arg) kubelet_args+=("--$value") ;;
      --etcd-arg) etcd_args+=("--$value") ;;
      --disable) disabled+=$value, ;;
      --node-name) node=$value ;;
      --write-kubeconfig) kubeconfig=$value ;;
      --write-kubeconfig-mode) kubeconfig_mode=$value ;;
      --egress-selector-mode | --flannel-backend | --token) ;;
      --snapshotter)
        [[ $value =~ ^(overlayfs|native)$ ]] || die "--snapshotter is overlayfs or native, not \"$value\""
        snapshotter=$value
        ;;
      *) die "flag $flag is not supported; \`k3s --help\` lists those that are" ;;
    esac
  done
}

# shellcheck source=files/certificates.sh
. "$share/certificates.sh"
# shellcheck source=files/components.sh
. "$share/components.sh"

# --- the host ---

# An engine hands the kernel's trees out read-only unless the container is privileged. With CAP_SYS_ADMIN they can be
# had: kubelet and runc write to cgroups, and kube-proxy and the CNI plug-ins to sysctls.
prepare_host() {
  local tree pid tables
  [ -e /dev/kmsg ] || ln -s /dev/null /dev/kmsg
  for tree in /sys /proc/sys; do mount -o remount,rw "$tree" 2>/dev/null || true; done
  for tree in /sys/fs/cgroup /sys/fs/cgroup/*/; do mount -o remount,bind,rw "$tree" 2>/dev/null || true; done
  mount --make-rshared / || die "cannot share mounts: the container needs --privileged, or the capabilities in README"
  mount -t tmpfs -o mode=755 node /run
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    # cgroup v2 gives controllers to children only of a group that has no processes itself.
    mkdir -p /sys/fs/cgroup/init
    while read -r pid; do
      echo "$pid" >/sys/fs/cgroup/init/cgroup.procs 2>/dev/null || true
    done </sys/fs/cgroup/cgroup.procs
    sed 's/ / +/g; s/^/+/' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control ||
      die "cannot hand cgroup controllers on: the container needs its own cgroup namespace"
  fi
  if ! xtables-nft-multi iptables -t nat -L -n >/dev/null 2>&1; then
    for tables in {iptables,ip6tables}{,-save,-restore}; do ln -sf xtables-legacy-multi "/usr/sbin/$tables"; done
  fi
}

# A name server on a loopback address is the engine's own and answers in this network namespace only, not in a pod's.
write_resolv_conf() {
  local line
  while read -r line; do
    [[ $line =~ ^nameserver\ +(127\.|::1) ]] || echo "$line"
  done </etc/resolv.conf >$run/resolv.conf
}

# --- readiness ---

# api PATH: what the API server answers to the admin, status line first. kubectl would do, but is slow to start.
api() {
  printf 'GET %s HTTP/1.0\r\n\r\n' "$1" |
    timeout 5 openssl s_client -quiet -connect 127.0.0.1:6443 -CAfile $tls/server-ca.crt -verify_return_error \
      -cert $tls/client-admin.crt -key $tls/client-admin.key 2>/dev/null || true
}

# api_has PATH [PATTERN]: that the answer is 200 and matches a glob pattern.
api_has() {
  local answer
  answer=$(api "$1")
  # shellcheck disable=SC2053  # a pattern is what is wanted
  [[ $answer == HTTP/1.?\ 200* && $answer == ${2:-*} ]]
}

# await WHAT COMMAND...: for up to two minutes, or until a component has failed for good.
await() {
  local what=$1 deadline=$((SECONDS + 120))
  shift
  until "$@"; do
    [ ! -e $run/failed ] || die "$(<$run/failed) does not stay up; its log ends above"
    ((SECONDS < deadline)) || die "waited two minutes for $what; see the logs in $logs"
    sleep 0.1
  done
}

containerd_answers() { ctr version >/dev/null 2>&1; }

import_images() {
  local archive
  await containerd containerd_answers
  for archive in "$share"/images/*.tar "$agent"/images/*.tar; do
    [ -e "$archive" ] || continue
    ctr -n k8s.io images import --snapshotter "$snapshotter" "$archive" >/dev/null ||
      { say "cannot import $archive" && return 1; }
  done
}

readonly coredns=/apis/apps/v1/namespaces/kube-system/deployments/coredns

# CoreDNS, unless it is disabled or there from before, and whatever lies in server/manifests. Without validation kubectl
# need not fetch the schemas of all kinds, which takes longer than all the rest of it.
apply_manifests() {
  local forward=''
  if [[ $disabled != *,coredns,* ]] && ! api_has $coredns; then
    ! grep -q '^nameserver' $run/resolv.conf || forward='forward . /etc/resolv.conf'
    sed "s|@FORWARD@|$forward|" $share/coredns.yaml |
      KUBECONFIG=$kubeconfig kubectl create --validate=false -f - >/dev/null
  fi
  [ -z "$(ls -A $data/server/manifests)" ] ||
    KUBECONFIG=$kubeconfig kubectl apply --server-side --force-conflicts -f $data/server/manifests >/dev/null
}

# --- the end ---

# Everything gets three seconds to end by itself; what is left dies with process 1.
finish() {
  local status=$? tick
  trap '' TERM INT
  touch $run/stopping
  kill -TERM -1 2>/dev/null || true
  for ((tick = 0; tick < 30; tick++)); do
    [ -n "$(jobs -pr)" ] || break
    sleep 0.1
  done
  exit $status
}

serve() {
  local importing applying
  parse "$@"
  [ ! -e $run ] || die "a node runs here already"
  address=$(hostname -i 2>/dev/null) || die "the container has no address: it needs a network"
  address=${address%% *}
  prepare_host
  trap 'say "told to stop"; exit 0' TERM INT
  trap finish EXIT
  mkdir -p $run $tls $agent/images $data/server/manifests "${kubeconfig%/*}" /etc/cni/net.d $logs
  write_resolv_conf
  sed "s|@SNAPSHOTTER@|$snapshotter|" $share/containerd.toml >$run/containerd.toml
  cp $share/ptp.conflist /etc/cni/net.d/10-ptp.conflist
  make_certificates
  start_control_plane
  import_images & importing=$!
  # Not earlier: until the API server has made RBAC's first roles, the controllers are refused and give up.
  await "the API server" api_has /readyz
  start_controllers
  start_node
  apply_manifests & applying=$!
  wait $importing || die "images could not be imported"
  wait $applying || die "manifests could not be applied"
  await "the node" api_has "/api/v1/nodes/$node" '*"type":"Ready","status":"True"*'
  await "the default ServiceAccount" api_has /api/v1/namespaces/default/serviceaccounts/default
  await "the cluster's root certificate" api_has /api/v1/namespaces/default/configmaps/kube-root-ca.crt
  [[ $disabled == *,coredns,* ]] || await CoreDNS api_has $coredns '*"availableReplicas":1*'
  touch $run/ready
  say "ready after $SECONDS s"
  say "Node controller sync successful"
  wait -n "${supervisors[@]}" || true
  die "$(<$run/failed) does not stay up; its log ends above"
}

case ${1:-server} in
  server) serve "${@:2}" ;;
  kubectl | ctr) exec "$@" ;;
  -h | --help | help) usage ;;
  *) die "\"$1\" is not a command; \`k3s --help\` lists those that there are" ;;
esac
