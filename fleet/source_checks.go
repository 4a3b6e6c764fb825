package fleet

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// sourceChecks checks the sources of apps: fields that exclude each other, and names of repositories, charts and
// signers.
type sourceChecks struct {
	*findings
	fleet     *Fleet
	workspace *Workspace // of the app; nil for one of the fleet
}

// release applies Helm's rule for release names.
func (sc sourceChecks) release(doc document, name string) {
	const most = 53
	if !strings.Contains(name, "${") && (len(name) > most || !validName(name)) {
		sc.errorf(doc, []string{"spec"}, "set releaseName: lower-case letters, digits, - and ., at most 53",
			"%q cannot be the name of a Helm release", name)
	}
}

// check checks one source.
func (sc sourceChecks) check(doc document, s *Source, at []string) {
	kinds := 0
	for _, set := range []bool{s.Helm != nil, s.Kustomize != nil, s.Manifests != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		sc.errorf(doc, at, "", "a source is exactly one of helm, kustomize and manifests")
		return
	}
	if s.Name != "" {
		sc.checkName(doc, s.Name, at...)
	}
	for _, p := range []*PathSource{s.Kustomize, s.Manifests} {
		if p != nil {
			sc.checkPath(doc, at, p.Path, sc.pathsOf(p.Repository))
			sc.mounted(doc, at, p.Repository)
		}
	}
	if s.Helm != nil {
		sc.helm(doc, append(at, "helm"), s.Helm)
	}
}

// pathsOf returns the workspace whose folder a path of a source begins in; nil if it begins in a repository.
func (sc sourceChecks) pathsOf(repository string) *Workspace {
	if repository != "" {
		return nil
	}
	return sc.workspace
}

func (sc sourceChecks) helm(doc document, at []string, h *HelmSource) {
	sc.checkPath(doc, at, h.Path, sc.pathsOf(h.Repository))
	sc.mounted(doc, at, h.Repository)
	if h.Repository != "" && h.Path == "" {
		sc.errorf(doc, at, "path: charts/web", "repository %s needs the path of the chart in it", h.Repository)
	}
	checkVerify(sc.findings, sc.fleet, doc, append(slices.Clone(at), "verify"), h.Verify)
	if h.VersionFrom != nil {
		sc.versionFrom(doc, slices.Clone(at), h)
	}
	if ns := h.Namespace; ns != "" && !strings.Contains(ns, "${") && !validNamespace(ns) {
		sc.errorf(doc, append(slices.Clone(at), "namespace"), "lower-case letters, digits and -, at most 63",
			"%q cannot be a namespace", ns)
	}
	switch {
	case h.Path != "" && (h.Chart != "" || h.Repo != "" || h.Version != ""):
		sc.errorf(doc, at, "a chart of this repository has its version in Chart.yaml",
			"path excludes chart, repo and version")
	case h.Path != "":
	case h.Chart == "" && h.Repo == "" && h.Version == "": // the folder of app.yaml
	case h.Chart == "":
		sc.errorf(doc, at, "", "chart is missing")
	default:
		sc.remoteChart(doc, at, h)
	}
}

func (sc sourceChecks) remoteChart(doc document, at []string, h *HelmSource) {
	oci := strings.HasPrefix(h.Chart, "oci://")
	switch {
	case !oci && h.Repo == "":
		sc.errorf(doc, at, "repo: https://…, or chart: oci://…, or path: charts/…", "chart %q needs repo", h.Chart)
	case oci && h.Repo != "":
		sc.errorf(doc, at, "remove repo", "an oci:// chart has no repo")
	case !oci && !strings.HasPrefix(h.Repo, "https://") && !strings.HasPrefix(h.Repo, "http://"):
		sc.errorf(doc, at, "https://…, or put the registry into chart as oci://…", "repo %q is not an HTTP URL", h.Repo)
	case hasPassword(h.Repo) || hasPassword(h.Chart):
		sc.errorf(doc, at, "remove them; credentials come from Helm's and Docker's own files",
			"a URL must not hold credentials")
	case h.Version == "" && h.VersionFrom == nil:
		sc.errorf(doc, at, `an exact version, or a range such as "^1.2"`, "chart %s needs version", h.Chart)
	}
}

// versionFrom checks the fields of a versionFrom.
func (sc sourceChecks) versionFrom(doc document, at []string, h *HelmSource) {
	v := h.VersionFrom
	at = append(at, "versionFrom")
	switch {
	case (v.File == "") == (v.Value == ""):
		sc.errorf(doc, at, "write file or value", "versionFrom takes the version from exactly one of file and value")
	case v.Key != "" && v.File == "":
		sc.errorf(doc, at, "write file too", "versionFrom.key belongs to versionFrom.file")
	case h.Version != "":
		sc.errorf(doc, at, "keep one of them", "the source has both version and versionFrom")
	case h.Chart == "":
		sc.errorf(doc, at, "a chart of this repository has its version in Chart.yaml", "versionFrom needs chart")
	case leavesRepository(v.File):
		from, hint := bounds(sc.workspace)
		sc.errorf(doc, at, hint, "the path %q leaves %s", v.File, from)
	}
}

// mounted refuses the name of a repository that the fleet does not declare.
func (sc sourceChecks) mounted(doc document, at []string, name string) {
	if name == "" {
		return
	}
	if _, ok := sc.fleet.Repository(name); ok {
		return
	}
	var known []string
	for _, r := range sc.fleet.Repositories {
		known = append(known, r.Name)
	}
	sc.errorf(doc, at, "declare it: kind: Repository in sluice.yaml or below repositories/",
		"the repository %q does not exist%s", name, nearest.DidYouMean(name, known))
}
