package fetch

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Ref asks for a chart. Repo is the URL of an HTTP chart repository; without it, Chart is an oci:// reference. Version is
// exact or a range.
type Ref struct {
	Repo, Chart, Version string
}

// String is the request as people write it.
func (r Ref) String() string {
	name := r.Chart
	if r.Repo != "" {
		name = strings.TrimSuffix(r.Repo, "/") + " " + r.Chart
	}
	return name + " " + r.Version
}

// OCI says that the chart is in a registry.
func (r Ref) OCI() bool { return strings.HasPrefix(r.Chart, ociScheme) }

// Name is the chart's name.
func (r Ref) Name() string { return path.Base(r.Chart) }

// ForDependency is the request for a dependency in Chart.yaml: its repository may be an OCI folder.
func ForDependency(repository, name, version string) Ref {
	if strings.HasPrefix(repository, ociScheme) {
		return Ref{Chart: strings.TrimSuffix(repository, "/") + "/" + name, Version: version}
	}
	return Ref{Repo: repository, Chart: name, Version: version}
}

const ociScheme = "oci://"

// Locked is what a request resolved to: an exact version and the digest (sha256:…) of the packed chart.
type Locked struct {
	Version, Digest string
}

// UnlockedError is a request that sluice.lock does not answer.
type UnlockedError struct{ Ref Ref }

// Error names the chart and the command to run.
func (e *UnlockedError) Error() string {
	return fmt.Sprintf("chart %s is not in sluice.lock: run `sluice deps lock` and commit the file", e.Ref)
}

// LockFile is where the lock stands in the source repository.
const LockFile = "sluice.lock"

const (
	lockVersion = "sluice.dev/v1alpha1"
	lockHeader  = "# What every remote chart resolved to. Written by `sluice deps lock`; commit it.\n"
)

// Lock is sluice.lock. The zero value is an empty one. It is not safe for concurrent writes.
type Lock struct {
	entries map[Ref]Locked
}

type lockFile struct {
	APIVersion string      `yaml:"apiVersion"`
	Kind       string      `yaml:"kind"`
	Charts     []lockEntry `yaml:"charts"`
}

type lockEntry struct {
	Repo     string `yaml:"repo,omitempty"`
	Chart    string `yaml:"chart"`
	Version  string `yaml:"version"`
	Resolved string `yaml:"resolved"`
	Digest   string `yaml:"digest"`
}

// ParseLock reads sluice.lock strictly.
func ParseLock(data []byte) (*Lock, error) {
	const most = 8 << 20
	if len(data) > most {
		return nil, fmt.Errorf("%s is larger than %d MiB", LockFile, most>>20)
	}
	l := &Lock{}
	if len(bytes.TrimSpace(data)) == 0 {
		return l, nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var file lockFile
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w: run `sluice deps lock` to write it anew", LockFile, err)
	}
	if file.APIVersion != lockVersion || file.Kind != "Lock" {
		return nil, fmt.Errorf("%s: it is no %s Lock: run `sluice deps lock` to write it anew", LockFile, lockVersion)
	}
	digest := regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	for i, e := range file.Charts {
		ref := Ref{Repo: e.Repo, Chart: e.Chart, Version: e.Version}
		switch _, twice := l.Lookup(ref); {
		case e.Chart == "" || e.Resolved == "" || !digest.MatchString(e.Digest):
			return nil, fmt.Errorf("%s: entry %d (%s) needs chart, resolved and a sha256 digest: run `sluice deps lock`", LockFile, i+1, ref)
		case twice:
			return nil, fmt.Errorf("%s: entry %d (%s) is there twice: run `sluice deps lock`", LockFile, i+1, ref)
		}
		l.Set(ref, Locked{Version: e.Resolved, Digest: e.Digest})
	}
	return l, nil
}

// Lookup finds what a request resolved to.
func (l *Lock) Lookup(r Ref) (Locked, bool) {
	v, ok := l.entries[r]
	return v, ok
}

// Set records what a request resolved to.
func (l *Lock) Set(r Ref, v Locked) {
	if l.entries == nil {
		l.entries = map[Ref]Locked{}
	}
	l.entries[r] = v
}

// Refs are all requests, in order.
func (l *Lock) Refs() []Ref {
	out := make([]Ref, 0, len(l.entries))
	for r := range l.entries {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Repo, b.Repo), cmp.Compare(a.Chart, b.Chart), cmp.Compare(a.Version, b.Version))
	})
	return out
}

// Bytes is the file, the same for the same entries.
func (l *Lock) Bytes() ([]byte, error) {
	file := lockFile{APIVersion: lockVersion, Kind: "Lock", Charts: []lockEntry{}}
	for _, r := range l.Refs() {
		v := l.entries[r]
		file.Charts = append(file.Charts, lockEntry{Repo: r.Repo, Chart: r.Chart, Version: r.Version, Resolved: v.Version, Digest: v.Digest})
	}
	out := bytes.NewBufferString(lockHeader)
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(file); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// VendorPath is where `sluice deps vendor` puts a chart in the source repository.
func VendorPath(r Ref, v Locked) string {
	safe := regexp.MustCompile(`[^A-Za-z0-9._-]+`)
	digest := strings.TrimPrefix(v.Digest, "sha256:")
	return fmt.Sprintf("vendor/charts/%s-%s-%.12s.tgz", safe.ReplaceAllString(r.Name(), "_"), safe.ReplaceAllString(v.Version, "_"), digest)
}
