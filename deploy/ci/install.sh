#!/usr/bin/env bash
# Makes a sluice binary available in the folder $1 and prints `sluice=<path>`.
#
# SLUICE_BINARY is the path of a binary to use. SLUICE_VERSION is a release (v0.3.0), whose checksum is verified; "source" builds
# the code in SLUICE_SOURCE with Go; "" chooses by SLUICE_REF, the ref of the action: the release of that name, for v0 the newest
# v0 release, and the source where no release fits. SLUICE_RELEASES is another place for releases. An archive with a wrong checksum
# is always an error.
set -euo pipefail
into=$1
mkdir -p "$into"
into=$(cd "$into" && pwd)
base=${SLUICE_RELEASES:-https://github.com/sluice-gitops/sluice/releases/download}

say() { echo "$*" >&2; }
fail() { say "$*"; exit 1; }
done_with() { echo "sluice=$1"; exit 0; }

from_source() {
  command -v go >/dev/null || fail "building from source needs Go: add actions/setup-go before, or name a release"
  (cd "$SLUICE_SOURCE" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$into/sluice" ./cmd/sluice)
  done_with "$into/sluice"
}

# newest prints the newest release if it has the major version $1, such as v0.
newest() {
  local url
  url=$(curl -fsSLI --retry 3 -o /dev/null -w '%{url_effective}' "${base%/download}/latest") || return 1
  case ${url##*/} in "$1".*) echo "${url##*/}" ;; *) return 1 ;; esac
}

# download gets the release $1 and verifies it. Status 1: the release does not exist for this system.
download() {
  local os arch file line sum
  os=$(uname -s | tr '[:upper:]' '[:lower:]')
  arch=$(uname -m)
  case $arch in x86_64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; esac
  case $os/$arch in linux/amd64 | linux/arm64 | darwin/amd64 | darwin/arm64) ;; *) say "no release exists for $os/$arch"; return 1 ;; esac
  file=sluice_${1#v}_${os}_$arch.tar.gz
  curl -fsSL --retry 3 -o "$into/$file" "$base/$1/$file" || { say "$base/$1/$file cannot be downloaded"; return 1; }
  curl -fsSL --retry 3 -o "$into/checksums.txt" "$base/$1/checksums.txt" || fail "$base/$1/checksums.txt cannot be downloaded"
  line=$(grep " $file\$" "$into/checksums.txt") || fail "$base/$1/checksums.txt does not name $file"
  if command -v sha256sum >/dev/null; then sum=$(sha256sum "$into/$file"); else sum=$(shasum -a 256 "$into/$file"); fi
  [ "${sum%% *}" = "${line%% *}" ] || fail "$file does not have the checksum that the release names"
  tar -xzf "$into/$file" -C "$into" sluice
}

if [ -n "${SLUICE_BINARY:-}" ]; then
  command -v "$SLUICE_BINARY" >/dev/null || fail "\"$SLUICE_BINARY\" is no program: give the path of a sluice binary"
  done_with "$SLUICE_BINARY"
fi
case ${SLUICE_VERSION:-} in
  source) from_source ;;
  v[0-9]*)
    download "$SLUICE_VERSION" || exit 1
    done_with "$into/sluice"
    ;;
  '') ;;
  [0-9]*) fail "\"$SLUICE_VERSION\" is not a release: did you mean v$SLUICE_VERSION?" ;;
  *) fail "\"$SLUICE_VERSION\" is not a release such as v0.3.0, nor \"source\"" ;;
esac
release=
case ${SLUICE_REF:-} in
  v[0-9]*.*) release=$SLUICE_REF ;;
  v[0-9]*) release=$(newest "$SLUICE_REF") || say "the newest release cannot be found" ;;
esac
if [ -n "$release" ] && download "$release"; then
  done_with "$into/sluice"
fi
say "no release for the ref \"${SLUICE_REF:-}\": building from source"
from_source
