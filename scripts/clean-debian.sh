# shellcheck shell=bash
# Sourced by scripts that need clean Debian systems: makes them by debootstrap in the folder $folder, with the mirror that
# apt uses here, enters them, and removes them at the end. It needs root's rights.
script=${0##*/}
[ "$(id -u)" = 0 ] || { echo "$script: debootstrap needs root's rights" >&2; exit 1; }
# Mounts end with the process, however it ends.
[ -n "${BANYAN_OWN_MOUNTS:-}" ] || BANYAN_OWN_MOUNTS=1 exec unshare --mount --propagation private "scripts/$script" "$@"

[ -n "${folder:-}" ] || folder=$(mktemp -d)
mkdir -p "$folder"
folder=$(realpath "$folder")
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
root=

remove() {
  [ -n "$root" ] || return 0
  umount -R "$root" 2>/dev/null || true
  awk -v root="$root" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r -n 1 umount -l || true
  rm -rf --one-file-system "$root"
  root=
}
trap 'remove; rmdir "$folder" 2>/dev/null || true' EXIT

# debian SUITE: a clean system in $root.
debian() {
  root=$folder/$1
  echo "== a clean Debian: $1"
  [ -e "$root/bin/sh" ] || debootstrap --variant=minbase "$1" "$root" "$mirror" >"$folder/debootstrap.log" || {
    tail "$folder/debootstrap.log" >&2
    exit 1
  }
  rm -f "$folder/debootstrap.log"
  mount --make-private --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/dev/shm"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  inside apt-get -q update
}

# inside COMMAND...: runs it there, with what pip needs of the environment here, for LIMIT seconds (1200) at most.
inside() {
  local settings
  mapfile -t settings < <(env | grep '^PIP_' || true)
  chroot "$root" env -i "${settings[@]}" HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive OMP_NUM_THREADS=1 \
    PATH=/root/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin timeout "${LIMIT:-1200}" "$@"
}

install() { inside apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" >"$root/apt.log" 2>&1 || { tail -n 30 "$root/apt.log" >&2; exit 1; }; }
