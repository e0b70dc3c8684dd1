#!/usr/bin/env bash
# Builds a Kubernetes node in a container from package registries alone: Go modules and Debian packages.
#
# Guaranteed: what is built is kept under a key of everything that goes into it, so that a second build is instant;
# what lies in the cache is complete, whenever a build was interrupted; builds at the same time wait for one another.
# Not done: other architectures than this machine's.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")"
# The key of the cache must not depend on how a language sorts names.
export LC_ALL=C
# shellcheck source=versions.lock
. ./versions.lock

usage() {
  cat <<'TEXT'
usage: build.sh [image | binaries | tag] [--help]

  image      (default) builds the binaries and the image, loads the image into the container engine where it is not
             there yet, and prints its tag as the last line; needs Go, apt-get, dpkg-deb and Docker
  binaries   builds kube and etcd alone and prints their folder as the last line; needs Go. The folder serves as
             KUBEBUILDER_ASSETS: kube-apiserver, etcd, kubectl, kube-controller-manager and the others
  tag        prints the tag that `image` would print, and builds nothing

RECONVERGE_CACHE, an environment variable, says where results are kept: by default in reconverge in the user's cache
folder. What was not used there for two weeks is removed.
TEXT
}

readonly programs="etcd kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet"
readonly inputs="build.sh versions.lock entry.sh files/* */go.mod */go.sum */main.go"

step() { printf 'node: %4d s  %s\n' "$SECONDS" "$*" >&2; }

fail() {
  printf 'node: %s\n' "$*" >&2
  exit 1
}

need() {
  local tool
  for tool; do command -v "$tool" >/dev/null || fail "$tool is missing: install it to build the node"; done
}

# --- Go ---

# The lock file is for people, go.mod for Go: they must say the same.
check_module() { # FOLDER MODULE VERSION
  local found
  found=$(cd "$1" && go list -m -f '{{.Version}}' "$2")
  [ "$found" = "$3" ] || fail "versions.lock says $2 $3, but $1/go.mod $found: make them agree"
}

compile() { # FOLDER OUTPUT PACKAGE [LDFLAGS]
  (cd "$1" && CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -buildvcs=false' \
    nice -n 5 go build -ldflags "-s -w ${4:-}" -o "$2" "$3")
}

build_binaries() { # FOLDER
  local package program stamp='' minor
  need go
  minor=${KUBERNETES#v1.}
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    stamp+=" -X $package.gitVersion=$KUBERNETES -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
    stamp+=" -X $package.gitTreeState=clean"
  done
  check_module kube k8s.io/kubernetes "$KUBERNETES"
  check_module kube go.etcd.io/etcd/server/v3 "$ETCD"
  step "compiling Kubernetes and etcd: minutes, unless Go has them in its cache"
  compile kube "$1/kube" . "$stamp"
  for program in $programs; do ln -s kube "$1/$program"; done
}

build_runtime() { # ROOT
  check_module containerd github.com/containerd/containerd "$CONTAINERD"
  check_module cni github.com/containernetworking/plugins "$CNI_PLUGINS"
  step "compiling containerd"
  compile containerd "$1/usr/bin/containerd" . "-X github.com/containerd/containerd/version.Version=$CONTAINERD"
  ln -s containerd "$1/usr/bin/ctr"
  compile containerd "$1/usr/bin/" tool
  step "compiling the CNI plug-ins"
  mkdir -p "$1/usr/lib/cni"
  compile cni "$1/usr/lib/cni/" tool
}

# --- Debian ---

# Packages are unpacked, not installed: nothing runs as root on this machine, and no package manager comes along.
unpack_packages() { # ROOT SCRATCH
  local apt="$2/apt" archive
  need apt-get dpkg-deb
  step "downloading Debian packages"
  mkdir -p "$apt"/{etc/preferences.d,state/lists/partial,cache/archives/partial}
  : >"$apt/status"
  local signed='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
  printf 'deb %s %s %s main\n' "$signed" "$DEBIAN_MIRROR/debian" "$DEBIAN_SUITE" \
    "$signed" "$DEBIAN_MIRROR/debian-security" "$DEBIAN_SUITE-security" >"$apt/etc/sources.list"
  local options=(-qq -o "Dir::Etc=$apt/etc" -o "Dir::State=$apt/state" -o "Dir::State::status=$apt/status"
    -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User= -o Debug::NoLocking=1 -o Acquire::Languages=none)
  apt-get "${options[@]}" update >&2
  # shellcheck disable=SC2086  # a list
  apt-get "${options[@]}" -y --no-install-recommends --download-only install $DEBIAN_PACKAGES >&2
  step "unpacking Debian packages"
  mkdir -p "$1"/usr/{bin,sbin,lib,lib64} "$1/usr/share/node"
  for archive in bin sbin lib lib64; do ln -s "usr/$archive" "$1/$archive"; done
  for archive in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$1" --keep-directory-symlink \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' \
      --exclude='./usr/share/info/*' --exclude='./usr/lib/*/gconv/*' --exclude='./usr/share/bash-completion/*'
    dpkg-deb --show "$archive" >>"$1/usr/share/node/packages"
  done
}

# What the packages' install scripts would have done, as far as a node needs it.
complete_root() { # ROOT
  local applet tables
  mkdir -p "$1"/{dev,etc,proc,root,run,sys,tmp,var/log} "$1/usr/local/bin"
  chmod 1777 "$1/tmp"
  echo 'root:x:0:0:root:/root:/bin/bash' >"$1/etc/passwd"
  echo 'root:x:0:' >"$1/etc/group"
  ln -sf bash "$1/usr/bin/sh"
  for tables in {iptables,ip6tables}{,-save,-restore}; do ln -sf xtables-nft-multi "$1/usr/sbin/$tables"; done
  for applet in $("$1/usr/bin/busybox" --list); do
    [ -e "$1/usr/bin/$applet" ] || [ -e "$1/usr/sbin/$applet" ] || ln -s busybox "$1/usr/bin/$applet"
  done
}

# --- images ---

# archive ROOT TAG CONFIG OUTPUT: a folder as an image archive, byte for byte the same for the same folder, so that
# building it twice leaves one image and no engine is needed to build it.
archive() {
  local scratch layer config
  local same=(--sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner)
  scratch=$(mktemp -d "$4.XXXXXX")
  tar "${same[@]}" -C "$1" -cf "$scratch/layer.tar" .
  layer=$(sha256sum <"$scratch/layer.tar" | cut -d' ' -f1)
  printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":%s,%s}' "$(go env GOARCH)" "$3" \
    "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$layer\"]}" >"$scratch/config.json"
  config=$(sha256sum <"$scratch/config.json" | cut -d' ' -f1)
  mv "$scratch/config.json" "$scratch/$config.json"
  printf '[{"Config":"%s.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$config" "$2" >"$scratch/manifest.json"
  tar "${same[@]}" -C "$scratch" -cf "$4" "$config.json" layer.tar manifest.json
  rm -rf "$scratch"
}

build_image() { # BINARIES SCRATCH OUTPUT
  local root="$2/root" pod program
  check_module coredns github.com/coredns/coredns "$COREDNS"
  mkdir -p "$root"
  unpack_packages "$root" "$2"
  complete_root "$root"
  build_runtime "$root"
  cp "$1/kube" "$root/usr/local/bin/kube"
  for program in $programs; do ln -s kube "$root/usr/local/bin/$program"; done
  cp files/* "$root/usr/share/node/"
  cp entry.sh "$root/usr/bin/k3s"
  mkdir -p "$root/usr/share/node/images"
  for pod in pause coredns; do
    step "compiling $pod"
    mkdir -p "$2/$pod"
    compile $pod "$2/$pod/$pod" .
    archive "$2/$pod" "localhost/node/$pod:1" "{\"Entrypoint\":[\"/$pod\"]}" "$root/usr/share/node/images/$pod.tar"
  done
  step "packing the image"
  archive "$root" "$tag" '{
    "Entrypoint": ["/usr/bin/k3s"], "Cmd": ["server"],
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "KUBECONFIG=/etc/rancher/k3s/k3s.yaml",
      "CONTAINERD_ADDRESS=/run/k3s/containerd/containerd.sock"],
    "ExposedPorts": {"6443/tcp": {}},
    "Volumes": {"/var/lib/rancher/k3s": {}, "/var/lib/kubelet": {}, "/var/log": {}}
  }' "$3"
}

# --- the cache ---

# In: nothing. Out: the folder of the cache that belongs to this version of the sources, and its tag.
locate() {
  local key
  # shellcheck disable=SC2086  # patterns
  key=$({ sha256sum $inputs; uname -m; } | sha256sum | cut -c1-12)
  cache=${RECONVERGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/reconverge}
  home=$cache/node-$key
  tag=reconverge/node:$KUBERNETES-$key
}

# Each result is made in a scratch folder and then moved into place.
ensure_binaries() {
  [ ! -e "$home/bin" ] || return 0
  mkdir "$scratch/bin"
  build_binaries "$scratch/bin"
  mv "$scratch/bin" "$home/bin"
}

ensure_image() {
  [ ! -e "$home/image.tar" ] || return 0
  build_image "$home/bin" "$scratch" "$scratch/image.tar"
  mv "$scratch/image.tar" "$home/image.tar"
}

load_image() {
  need docker
  docker version >/dev/null || fail "Docker does not answer to \`docker version\`"
  if ! docker image inspect "$tag" >/dev/null 2>&1; then
    step "loading the image"
    docker load -q -i "$home/image.tar" >&2
  fi
  docker tag "$tag" "reconverge/node:$KUBERNETES"
}

main() {
  local what=image argument
  for argument; do
    case $argument in
      -h | --help) usage && return ;;
      image | binaries | tag) what=$argument ;;
      *) usage >&2 && fail "\"$argument\" is not an argument" ;;
    esac
  done
  locate
  [ "$what" != tag ] || { echo "$tag" && return; }
  need flock
  mkdir -p "$home"
  exec 9>"$home.lock"
  flock -n 9 || { step "waiting for another build" && flock 9; }
  rm -rf "$home"/scratch.*
  scratch=$(mktemp -d "$home/scratch.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  touch "$home"
  find "$cache" -maxdepth 1 -name 'node-*' ! -name "${home##*/}*" -mtime +14 -exec rm -rf {} +
  ensure_binaries
  if [ "$what" = binaries ]; then
    echo "$home/bin"
    return
  fi
  ensure_image
  load_image
  step "$tag: $((($(stat -c %s "$home/image.tar") + 500000) / 1000000)) MB"
  echo "$tag"
}

main "$@"
