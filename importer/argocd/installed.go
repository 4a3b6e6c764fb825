package argocd

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Installed is what a file says about the version of Argo CD.
type Installed struct {
	Version string // without a leading v
	Chart   string // whose version stands for it, such as "chart argo-cd 9.1.2"; "" for none
	Origin  Origin
}

var (
	// installRemote finds the version in the URL of Argo CD's manifests, which a kustomization names.
	installRemote = regexp.MustCompile(`argoproj/argo-cd(?:\.git)?/(?:/*manifests/[^\s?]*\?\S*?ref=v?(\d+\.\d+(?:\.\d+)?)|v(\d+\.\d+\.\d+)/manifests/)`)
	installImage  = regexp.MustCompile(`(?:^|/)argoproj/argocd:v?(\d+\.\d+\.\d+)(?:@|$)`)
	installTag    = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)$`)
)

// installs finds the version in a file that installs Argo CD: the image of its workloads, an image or a remote base of
// a kustomization, and its chart in an Application, in helmCharts, in Chart.yaml, or as a copy.
func installs(name string, data []byte) (out []Installed) {
	line := 0
	for document := range bytes.SplitAfterSeq(data, []byte("\n---")) {
		at := line
		line += bytes.Count(document, []byte("\n"))
		if !bytes.Contains(document, []byte("argoproj/argo")) && !bytes.Contains(document, []byte("argo-cd")) ||
			manifest.Check(document, manifest.DefaultBudget()) != nil {
			continue
		}
		var node yaml.Node
		if yaml.Unmarshal(bytes.TrimSuffix(document, []byte("---")), &node) != nil || len(node.Content) == 0 {
			continue // a template, most likely
		}
		found := func(version, chart string, line int) {
			if version != "" {
				out = append(out, Installed{
					Version: version, Chart: chart, Origin: Origin{File: name, Line: at + line},
				})
			}
		}
		kind := field(node.Content[0], "kind")
		visitInstall(&node, slices.Contains([]string{"Deployment", "StatefulSet"}, kind), found)
	}
	return out
}

// visitInstall calls found for each version below a node. workload says that images are those of a running Argo CD, not
// of a job that uses its command.
func visitInstall(n *yaml.Node, workload bool, found func(version, chart string, line int)) {
	group := func(pattern *regexp.Regexp, text string) string {
		return strings.Join(append(pattern.FindStringSubmatch(text), "", "")[1:], "")
	}
	switch n.Kind {
	case yaml.ScalarNode:
		found(group(installRemote, n.Value), "", n.Line)
	case yaml.MappingNode:
		text := func(key string) string { return field(n, key) }
		if workload {
			found(group(installImage, text("image")), "", n.Line)
		}
		if strings.HasSuffix("/"+text("name"), "/argoproj/argocd") { // `images` of a kustomization
			found(group(installTag, text("newTag")), "", n.Line)
		}
		switch {
		case text("chart") == "argo-cd" && text("targetRevision") != "":
			found(ofChart(text("targetRevision")), "chart argo-cd "+text("targetRevision"), n.Line)
		case text("name") == "argo-cd" && text("appVersion") != "":
			found(group(installTag, text("appVersion")), "", n.Line)
		case text("name") == "argo-cd" && strings.Contains(text("repo")+text("repository"), "argo"):
			found(ofChart(text("version")), "chart argo-cd "+text("version"), n.Line)
		}
	}
	for _, inner := range n.Content {
		visitInstall(inner, workload, found)
	}
}

// field returns the text of a key of a mapping; "" if it has none.
func field(n *yaml.Node, key string) string {
	for k := 0; n.Kind == yaml.MappingNode && k+1 < len(n.Content); k += 2 {
		if n.Content[k].Value == key && n.Content[k+1].Kind == yaml.ScalarNode {
			return n.Content[k+1].Value
		}
	}
	return ""
}

// chartVersions are the first versions of the chart argo-cd, ascending, with the minor version of Argo CD that it
// installs from then on. The last one says up to which version of the chart this is known.
func chartVersions() [][2]string {
	return [][2]string{
		{"3.0.0", "2.0"},
		{"3.13.0", "2.1"},
		{"3.29.0", "2.2"},
		{"4.0.0", "2.3"},
		{"4.9.0", "2.4"},
		{"5.8.0", "2.5"},
		{"5.20.0", "2.6"},
		{"5.30.0", "2.7"},
		{"5.43.0", "2.8"},
		{"5.51.0", "2.9"},
		{"5.55.0", "2.10"},
		{"6.8.0", "2.11"},
		{"7.4.0", "2.12"},
		{"7.7.0", "2.13"},
		{"7.8.0", "2.14"},
		{"8.0.0", "3.0"},
		{"8.3.0", "3.1"},
		{"9.1.0", "3.2"},
		{"9.4.0", "3.3"},
		{"9.5.12", "3.4"},
		{"10.1.2", ""},
	}
}

// ofChart returns the minor version of Argo CD that a version of its chart installs; "" if it is not known, or for a
// range.
func ofChart(version string) string {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	if err != nil {
		return ""
	}
	out := ""
	for _, row := range chartVersions() {
		if v.LessThan(semver.MustParse(row[0])) {
			break
		}
		out = row[1]
	}
	return out
}
