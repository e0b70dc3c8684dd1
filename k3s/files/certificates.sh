# shellcheck shell=bash disable=SC2154,SC2086  # the entry point sets what is not set here, and to paths without blanks
# The authorities, certificates and kubeconfigs of a node, where k3s keeps them. Sourced by the entry point.
#
# In: the node's name, its address, further names for the serving certificate. Out: files in server/tls and agent.
# Authorities that are there already are kept; everything that they sign is made anew at every start.

# A new P-256 key in SEC 1 form, as k3s writes them.
new_key() { openssl ecparam -genkey -name prime256v1 -noout -out "$1"; }

# authority NAME: makes one unless there is one, so that somebody else's can be put in place before the start.
authority() {
  [ -e "$tls/$1.crt" ] && return
  new_key "$tls/$1.key"
  openssl req -x509 -new -key "$tls/$1.key" -days 3650 -subj "/CN=node-$1" -out "$tls/$1.crt" -config <(
    printf '%s\n' '[req]' 'distinguished_name=name' 'x509_extensions=authority' '[name]' '[authority]' \
      'basicConstraints=critical,CA:TRUE' 'keyUsage=critical,digitalSignature,keyCertSign,cRLSign' \
      'subjectKeyIdentifier=hash'
  )
}

# leaf PATH AUTHORITY SUBJECT EXTENSIONS...: made anew at every start, for the container's address may have changed.
leaf() {
  local path=$1 by=$2 subject=$3
  shift 3
  new_key "$path.key"
  openssl req -new -key "$path.key" -subj "$subject" |
    openssl x509 -req -CA "$tls/$by.crt" -CAkey "$tls/$by.key" -days 3650 -set_serial "0x$(openssl rand -hex 8)" \
      -extfile <(printf '%s\n' keyUsage=critical,digitalSignature "$@") -out "$path.crt" 2>/dev/null
  cat "$tls/$by.crt" >>"$path.crt"
}

# The names of a certificate, from a list that is separated by commas.
alternative_names() {
  local name list=''
  for name in ${1//,/ }; do
    if [[ $name =~ ^[0-9.]+$ || $name == *:* ]]; then list+=,IP:$name; else list+=,DNS:$name; fi
  done
  echo "subjectAltName=${list#,}"
}

make_certificates() {
  local job jobs=() client=extendedKeyUsage=clientAuth server=extendedKeyUsage=serverAuth
  local api=localhost,kubernetes,kubernetes.default,kubernetes.default.svc,kubernetes.default.svc.cluster.local
  [ -e $tls/service.key ] || new_key $tls/service.key
  for job in server-ca client-ca request-header-ca; do authority $job & jobs+=($!); done
  for job in "${jobs[@]}"; do wait "$job"; done
  jobs=()
  leaf $tls/serving-kube-apiserver server-ca /CN=kube-apiserver $server \
    "$(alternative_names "$api,$node,127.0.0.1,$api_ip,$address$sans")" & jobs+=($!)
  leaf $agent/serving-kubelet server-ca "/CN=$node" $server \
    "$(alternative_names "$node,127.0.0.1,$address")" & jobs+=($!)
  leaf $tls/client-kube-apiserver client-ca /O=system:masters/CN=kube-apiserver $client & jobs+=($!)
  leaf $tls/client-auth-proxy request-header-ca /CN=system:auth-proxy $client & jobs+=($!)
  identity client-admin /O=system:masters/CN=system:admin "$kubeconfig" & jobs+=($!)
  identity client-controller /CN=system:kube-controller-manager & jobs+=($!)
  identity client-scheduler /CN=system:kube-scheduler & jobs+=($!)
  identity client-kubelet "/O=system:nodes/CN=system:node:$node" & jobs+=($!)
  identity client-kube-proxy /CN=system:kube-proxy & jobs+=($!)
  for job in "${jobs[@]}"; do wait "$job" || die "cannot make certificates"; done
  chmod "$kubeconfig_mode" "$kubeconfig"
}

# identity NAME SUBJECT [KUBECONFIG]: a client certificate, and the kubeconfig around it.
identity() {
  leaf "$tls/$1" client-ca "$2" extendedKeyUsage=clientAuth
  cat >"${3:-$tls/$1.kubeconfig}" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: default
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority-data: $(base64 -w0 <$tls/server-ca.crt)
users:
- name: default
  user:
    client-certificate-data: $(base64 -w0 <"$tls/$1.crt")
    client-key-data: $(base64 -w0 <"$tls/$1.key")
contexts:
- name: default
  context: {cluster: default, user: default}
current-context: default
YAML
}
