package lifecycle

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Addon says which versions of Kubernetes a component works with. Its version is that of its image.
type Addon struct {
	Name string
	// Images are the last parts of the repository, such as metrics-server/metrics-server, with the patterns of
	// path.Match. So a mirror counts too.
	Images []string
	// Versions are those that the entry is about, such as `>=0.7 <0.8`; "" for all.
	Versions string
	// Kubernetes are the versions that it works with, such as `>=1.27 <=1.33`; "" if Skew says it.
	Kubernetes string
	// Skew is how far the component's minor version may be from the cluster's; nil if Kubernetes says it.
	Skew *Skew
	// Advice is an entry whose source recommends and does not demand, so that it blocks nothing.
	Advice bool
	Source string // the address of the document that says it
}

// Skew is how many minor versions a component may be older and newer than the cluster.
type Skew struct{ Older, Newer int }

func constraint(text string) (*semver.Constraints, error) {
	if text == "" {
		text = "*"
	}
	return semver.NewConstraint(text)
}

// matches reports whether the repository of an image ends with one of the entry's.
func (a *Addon) matches(repository string) bool {
	parts := strings.Split(repository, "/")
	return slices.ContainsFunc(a.Images, func(pattern string) bool {
		n := strings.Count(pattern, "/") + 1
		if n > len(parts) {
			return false
		}
		ok, err := path.Match(pattern, strings.Join(parts[len(parts)-n:], "/"))
		return err == nil && ok
	})
}

// image is a container's image by its parts.
type image struct{ repository, tag string }

func splitImage(name string) image {
	name, _, _ = strings.Cut(name, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return image{name[:i], name[i+1:]}
	}
	return image{name, ""}
}

// version returns the version of the tag without what a builder adds to it, such as -eksbuild.1; nil if it has none.
func (i image) version() *semver.Version {
	v, err := semver.NewVersion(i.tag)
	if err != nil {
		return nil
	}
	return semver.New(v.Major(), v.Minor(), v.Patch(), "", "")
}

// suits reports whether the entry applies to a version and, if so, what is wrong with it on a cluster; "" if nothing.
func (a *Addon) suits(v *semver.Version, at Minor) (applies bool, wrong string) {
	versions, err := constraint(a.Versions)
	if err != nil || !versions.Check(v) {
		return false, ""
	}
	if a.Skew == nil {
		wanted, err := constraint(a.Kubernetes)
		if err != nil || wanted.Check(semver.New(uint64(at.Major), uint64(at.Minor), 0, "", "")) { //nolint:gosec // never negative
			return true, ""
		}
		return true, "is for Kubernetes " + a.Kubernetes
	}
	own := Minor{int(v.Major()), int(v.Minor())} //nolint:gosec // small, or out of every range
	switch {
	case own.Major != at.Major:
		return true, fmt.Sprintf("must have the major version of the cluster, %d", at.Major)
	case own.Minor > at.Minor+a.Skew.Newer && a.Skew.Newer == 0:
		return true, "must not be newer than the cluster"
	case own.Minor > at.Minor+a.Skew.Newer:
		return true, fmt.Sprintf("may be at most %s newer than the cluster", minors(a.Skew.Newer))
	case own.Minor < at.Minor-a.Skew.Older && a.Skew.Older == 0:
		return true, "must have the minor version of the cluster"
	case own.Minor < at.Minor-a.Skew.Older:
		return true, fmt.Sprintf("may be at most %s older than the cluster", minors(a.Skew.Older))
	}
	return true, ""
}

func minors(n int) string {
	if n == 1 {
		return "1 minor version"
	}
	return fmt.Sprintf("%d minor versions", n)
}

// Addons are the entries that Sluice knows. An entry has one fact with the document that says it; a fleet adds others.
func Addons() []Addon {
	const skew = "https://kubernetes.io/releases/version-skew-policy/"
	const autoscaler = "https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler#releases"
	const metrics = "https://github.com/kubernetes-sigs/metrics-server#compatibility-matrix"
	three, two := &Skew{Older: 3}, &Skew{Older: 2}
	nodes := func(name string, images ...string) []Addon {
		return []Addon{
			{Name: name, Images: images, Versions: ">=1.25", Skew: three, Source: skew},
			{Name: name, Images: images, Versions: "<1.25", Skew: two, Source: skew},
		}
	}
	plane := func(name string, images ...string) Addon {
		return Addon{Name: name, Images: images, Skew: &Skew{Older: 1}, Source: skew}
	}
	// cloud is a controller of a cloud: the skew policy allows it to be one minor version older
	cloud := func(name, versions, source string, images ...string) Addon {
		return Addon{Name: name, Images: images, Versions: versions, Skew: &Skew{Older: 1}, Source: source}
	}
	metricsServer := func(versions, kubernetes string) Addon {
		return Addon{
			Name: "metrics-server", Images: []string{"metrics-server/metrics-server"}, Versions: versions,
			Kubernetes: kubernetes, Source: metrics,
		}
	}
	return slices.Concat(
		nodes("kubelet", "kubelet", "hyperkube"),
		nodes("kube-proxy", "kube-proxy", "kube-proxy-*"),
		[]Addon{
			plane("kube-controller-manager", "kube-controller-manager", "kube-controller-manager-*"),
			plane("kube-scheduler", "kube-scheduler", "kube-scheduler-*"),
			// these two have the minor versions of Kubernetes; most others have versions of their own
			cloud("cloud-provider-aws", ">=1.20", "https://kubernetes.github.io/cloud-provider-aws/",
				"cloud-provider-aws/cloud-controller-manager"),
			cloud("cloud-provider-azure", ">=1.23", "https://github.com/kubernetes-sigs/cloud-provider-azure#version-matrix",
				"azure-cloud-controller-manager"),
			{Name: "kubectl", Images: []string{"kubectl"}, Skew: &Skew{Older: 1, Newer: 1}, Source: skew},
			{
				Name: "cluster-autoscaler", Images: []string{"autoscaling/cluster-autoscaler", "cluster-autoscaler-*"},
				Versions: ">=1.12", Skew: &Skew{}, Advice: true, Source: autoscaler,
			},
			{ // other versions may work, but are not tested
				Name: "cilium", Images: []string{"cilium/cilium"}, Versions: ">=1.18 <1.19", Kubernetes: ">=1.30 <=1.33",
				Advice: true, Source: "https://docs.cilium.io/en/v1.18/network/kubernetes/compatibility/",
			},
			metricsServer(">=0.9 <0.10", ">=1.34"),
			metricsServer(">=0.8 <0.9", ">=1.31"),
			metricsServer(">=0.7 <0.8", ">=1.27"),
			metricsServer(">=0.6 <0.7", ">=1.25"),
			metricsServer(">=0.3 <0.4", ">=1.8 <=1.21"),
		},
	)
}
