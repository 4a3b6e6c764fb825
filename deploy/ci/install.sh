#!/usr/bin/env bash
# Makes a sluice binary available in the folder $1 and prints `sluice=<path>`. SLUICE_BINARY is one that is there; SLUICE_VERSION a
# release, whose checksum is verified, or "source" for the code in SLUICE_SOURCE. SLUICE_RELEASES is another place for releases.
set -euo pipefail
into=$1
mkdir -p "$into"
if [ -n "${SLUICE_BINARY:-}" ]; then
  echo "sluice=$SLUICE_BINARY"
  exit 0
fi
version=${SLUICE_VERSION:-source}
if [ "$version" = source ]; then
  command -v go >/dev/null || { echo "version \"source\" needs Go: add actions/setup-go before, or name a release" >&2; exit 1; }
  (cd "$SLUICE_SOURCE" && CGO_ENABLED=0 go build -trimpath -o "$into/sluice" ./cmd/sluice)
  echo "sluice=$into/sluice"
  exit 0
fi
case $version in v[0-9]*) ;; *) echo "\"$version\" is no release such as v0.3.0" >&2; exit 1 ;; esac
os=$(uname -s | tr '[:upper:]' '[:lower:]')
arch=$(uname -m)
case $arch in x86_64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; esac
case $os/$arch in linux/amd64 | linux/arm64 | darwin/amd64 | darwin/arm64) ;; *) echo "there is no release for $os/$arch" >&2; exit 1 ;; esac
file=sluice_${version#v}_${os}_$arch.tar.gz
base=${SLUICE_RELEASES:-https://github.com/sluice-gitops/sluice/releases/download}/$version
cd "$into"
curl -fsSL --retry 3 -o "$file" "$base/$file"
curl -fsSL --retry 3 -o checksums.txt "$base/checksums.txt"
line=$(grep " $file\$" checksums.txt) || { echo "$base/checksums.txt does not name $file" >&2; exit 1; }
if command -v sha256sum >/dev/null; then sum=$(sha256sum "$file"); else sum=$(shasum -a 256 "$file"); fi
[ "${sum%% *}" = "${line%% *}" ] || { echo "$file does not have the checksum that the release names" >&2; exit 1; }
tar -xzf "$file" sluice
echo "sluice=$into/sluice"
