package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// The newest minor versions whose behavior Sluice knows.
const (
	newestFlux   = "2.9"
	newestArgoCD = "3.5"
)

// evidence is a place in a repository that says which version of a tool is installed.
type evidence struct {
	version string // or a range
	of      string // what stands for the version, such as the version of a chart; "" for the version itself
	at      string // FILE:LINE
}

// toolVersion is the version of a tool, with the comment for it in sluice.yaml. Both are empty if it is not known.
type toolVersion struct{ version, why string }

// versionFrom decides which version a tool has. An entry of spec.import has one version: if the places name different
// ones, it is the lowest, and the comment names one of the other places. For a range, it is the newest minor version
// in it that Sluice knows.
func versionFrom(list []evidence, newest string) toolVersion {
	var lowest *semver.Version
	var out toolVersion
	known := map[string]*semver.Version{} // by place
	for _, e := range list {
		version, v := resolve(e.version, newest)
		if v == nil {
			continue
		}
		known[e.at] = v
		if lowest != nil && !v.LessThan(lowest) {
			continue
		}
		lowest, out = v, toolVersion{version: version, why: "from " + e.at}
		switch {
		case e.of != "":
			out.why = "of " + e.of + ", " + out.why
		case version != e.version:
			out.why = "the newest of " + strconv.Quote(e.version) + " that Sluice knows, " + out.why
		}
	}
	for _, at := range slices.Sorted(maps.Keys(known)) {
		if v := known[at]; minor(v) != minor(lowest) {
			out.why += fmt.Sprintf("; %s has %s", at, v.Original())
			break
		}
	}
	return out
}

// resolve returns the version that a version or a range means: the newest minor version of a range up to newest. The
// result is nil for a range that has none, and for a text that is neither.
func resolve(text, newest string) (string, *semver.Version) {
	if v, err := semver.StrictNewVersion(text); err == nil {
		return text, v
	}
	wanted, err := semver.NewConstraint(text)
	if err != nil {
		return "", nil
	}
	const patches = 100 // more than a minor version has
	last := semver.MustParse(newest)
	for n := last.Minor() + 1; n > 0; n-- {
		for patch := range uint64(patches) {
			if wanted.Check(semver.New(last.Major(), n-1, patch, "", "")) {
				version := fmt.Sprintf("%d.%d", last.Major(), n-1)
				return version, semver.MustParse(version)
			}
		}
	}
	return "", nil
}

// minor is the part of a version on which behavior depends.
func minor(v *semver.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

// key is the same for versions of the same behavior; "" if the version is not known.
func (t toolVersion) key() string {
	if v, err := semver.NewVersion(t.version); err == nil {
		return minor(v)
	}
	return ""
}

// comment writes the comment behind the version in a sluice.yaml.
func (t toolVersion) comment(text []byte) []byte {
	if t.version == "" {
		return text
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	for n, line := range lines {
		if value, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("version: ")); ok &&
			string(bytes.Trim(value, `"`)) == t.version {
			lines[n] = fmt.Appendf(nil, "%s # %s\n", bytes.TrimRight(line, "\n"), safetext.Line(t.why))
		}
	}
	return bytes.Join(lines, nil)
}

// fluxEntries are the entries of spec.import, one for each version of Flux, in the order of their clusters.
func (d *detected) fluxEntries() []any {
	byVersion := map[string]map[string]fleet.ImportedCluster{}
	for name, c := range d.flux {
		key := d.fluxVersions[name].key()
		if byVersion[key] == nil {
			byVersion[key] = map[string]fleet.ImportedCluster{}
		}
		byVersion[key][name] = c
	}
	first := func(key string) string { return slices.Sorted(maps.Keys(byVersion[key]))[0] }
	keys := slices.SortedFunc(maps.Keys(byVersion), func(a, b string) int {
		return strings.Compare(first(a), first(b))
	})
	var out []any
	for _, key := range keys {
		entry := fleet.FluxImport{Clusters: byVersion[key]}
		versions := slices.SortedFunc(maps.Keys(byVersion[key]), func(a, b string) int {
			return cmp.Or(strings.Compare(d.fluxVersions[a].version, d.fluxVersions[b].version), strings.Compare(a, b))
		})
		entry.Version = d.fluxVersions[versions[0]].version
		out = append(out, map[string]any{"flux": entry})
	}
	return out
}
