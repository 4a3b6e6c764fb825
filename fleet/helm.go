package fleet

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/Masterminds/semver/v3"
)

// The major versions of Helm that Sluice renders charts with.
const (
	Helm3 = 3
	Helm4 = 4
)

// Helm returns the major version of Helm that renders the charts of a target. What is nearer to the target decides: the
// app; the cluster, or its class; the tool whose objects describe the target; the fleet. Without any of them it is 3,
// as in releases that had only Helm 3.
func (f *Fleet) Helm(t Target) int {
	tool := 0
	if i := t.Imported(); i != nil {
		tool = f.Spec.Import[i.Entry].helm()
	}
	return cmp.Or(t.App.Spec.Helm, t.Cluster.Helm, tool, f.Spec.Helm, Helm3)
}

// helm returns the major version of Helm that the entry names, or that its tool ships.
func (i Import) helm() int {
	switch {
	case i.Helm != 0:
		return i.Helm
	case i.Flux != nil && olderThan(i.Flux.Version, 2, 8), i.ArgoCD != nil && olderThan(i.ArgoCD.Version, 3, 5):
		return Helm3
	default:
		return Helm4
	}
}

// Strict reports whether a variable that is not set and has no default is an error in postBuild: what the entry says,
// or the default of its version of Flux.
func (f *FluxImport) Strict() bool {
	if f.StrictPostBuildSubstitutions != nil {
		return *f.StrictPostBuildSubstitutions
	}
	return !olderThan(f.Version, 2, 9)
}

// TemplatesValues reports whether the second generator of a matrix may use its own parameters in its values, as since
// Argo CD 3.4.
func (a *ArgoCDImport) TemplatesValues() bool { return !olderThan(a.Version, 3, 4) }

// olderThan reports whether a version of a tool is known and lower than major.minor.
func olderThan(version string, major, minor uint64) bool {
	v, err := semver.NewVersion(version)
	return err == nil && (v.Major() < major || v.Major() == major && v.Minor() < minor)
}

// checkTool reports a version of a tool that is none.
func (i Import) checkTool() error {
	version := ""
	switch {
	case i.Flux != nil:
		version = i.Flux.Version
	case i.ArgoCD != nil:
		version = i.ArgoCD.Version
	}
	if version == "" {
		return nil
	}
	if _, err := semver.NewVersion(version); err != nil {
		return fmt.Errorf("%s is not a version", strconv.Quote(version))
	}
	return nil
}
