# shellcheck shell=bash disable=SC2154,SC2086  # the entry point sets what is not set here, and to paths without blanks
# The components of a node and how each is kept running. Sourced by the entry point.
#
# In: the node's name, its address, the further flags of each component. Out: one supervisor for each component that
# was started, in `supervisors`; a log and a file with the process id; `failed` with the name of one that gave up.

supervisors=()

# start NAME FLAGS...: runs a component for as long as the container lives.
start() {
  supervise "$@" &
  supervisors+=($!)
}

# A component killed by a signal, or one that had been up, was disturbed on purpose: it comes back at once. One that
# ends with an error before the node is ready will not get better. Later on it may just have found the API server away,
# and gets twenty attempts.
supervise() {
  local name=$1 failures=0 began status pid
  trap : TERM
  while :; do
    began=$SECONDS status=0
    "$@" >>"$logs/$name.log" 2>&1 &
    pid=$!
    echo $pid >"$run/$name.pid"
    wait $pid || status=$?
    if [ -e $run/stopping ]; then
      # The signal that ended the wait may be this shell's and not yet the component's end.
      wait $pid || true
      return 0
    fi
    say "$name ended with status $status"
    if ((status > 128 || SECONDS - began > 10)); then failures=0; else failures=$((failures + 1)); fi
    if ((failures > 19)) || { ((failures)) && [ ! -e $run/ready ]; }; then
      tail -n 15 "$logs/$name.log" >&2
      echo "$name" >>$run/failed
      return 1
    fi
    sleep $((failures ? 1 : 0))
  done
}

start_control_plane() {
  start etcd --data-dir=$data/server/db/etcd --listen-client-urls=http://127.0.0.1:2379 \
    --advertise-client-urls=http://127.0.0.1:2379 --listen-peer-urls=http://127.0.0.1:2380 \
    --log-level=warn --unsafe-no-fsync "${etcd_args[@]}"
  start kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --advertise-address="$address" \
    --tls-cert-file=$tls/serving-kube-apiserver.crt --tls-private-key-file=$tls/serving-kube-apiserver.key \
    --client-ca-file=$tls/client-ca.crt --kubelet-certificate-authority=$tls/server-ca.crt \
    --kubelet-preferred-address-types=InternalIP \
    --kubelet-client-certificate=$tls/client-kube-apiserver.crt --kubelet-client-key=$tls/client-kube-apiserver.key \
    --requestheader-client-ca-file=$tls/request-header-ca.crt --requestheader-allowed-names=system:auth-proxy \
    --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group \
    --requestheader-username-headers=X-Remote-User --proxy-client-cert-file=$tls/client-auth-proxy.crt \
    --proxy-client-key-file=$tls/client-auth-proxy.key --service-account-key-file=$tls/service.key \
    --service-account-signing-key-file=$tls/service.key \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --api-audiences=https://kubernetes.default.svc.cluster.local,k3s --service-cluster-ip-range=$services \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged \
    "${apiserver_args[@]}"
  start containerd --config $run/containerd.toml
}

# The default of 20 requests a second makes the controllers need five seconds to start.
start_controllers() {
  start kube-controller-manager --kubeconfig=$tls/client-controller.kubeconfig --leader-elect=false \
    --service-account-private-key-file=$tls/service.key --root-ca-file=$tls/server-ca.crt \
    --use-service-account-credentials --cluster-signing-cert-file=$tls/client-ca.crt \
    --cluster-signing-key-file=$tls/client-ca.key --kube-api-qps=500 --kube-api-burst=1000 \
    --allocate-node-cidrs --cluster-cidr=$pods \
    --authentication-kubeconfig=$tls/client-controller.kubeconfig \
    --authorization-kubeconfig=$tls/client-controller.kubeconfig "${controller_args[@]}"
  start kube-scheduler --kubeconfig=$tls/client-scheduler.kubeconfig --leader-elect=false "${scheduler_args[@]}"
}

start_node() {
  start kubelet --config=$share/kubelet.yaml --kubeconfig=$tls/client-kubelet.kubeconfig \
    --hostname-override="$node" --node-ip="$address" "${kubelet_args[@]}"
  # Sysctls of connection tracking belong to the host.
  start kube-proxy --kubeconfig=$tls/client-kube-proxy.kubeconfig --cluster-cidr=$pods --proxy-mode=iptables \
    --hostname-override="$node" --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 \
    --conntrack-tcp-timeout-close-wait=0 "${proxy_args[@]}"
}
