package argocd

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"io"
	"path"
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

	values bool // of the chart: they replace what its version says
}

var (
	// installRemote finds the version in the URL of Argo CD's manifests, which a kustomization names.
	installRemote = regexp.MustCompile(`argoproj/argo-cd(?:\.git)?/(?:/*manifests/[^\s?]*\?\S*?ref=v?(\d+\.\d+(?:\.\d+)?)|v(\d+\.\d+\.\d+)/manifests/)`)
	installImage  = regexp.MustCompile(`(?:^|/)argoproj/argocd:v?(\d+\.\d+\.\d+)(?:@|$)`)
	installTag    = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)$`)
)

// installs finds the version in a file that installs Argo CD: the image of its workloads, an image or a remote base of
// a kustomization, its chart in an Application, a HelmRelease, helmCharts, Chart.yaml, a lock or as a copy,
// global.image in the values of the chart, and spec.version of the operator's ArgoCD.
func installs(name string, data []byte) (out []Installed) {
	line := 0
	for document := range bytes.SplitAfterSeq(data, []byte("\n---")) {
		at := line
		line += bytes.Count(document, []byte("\n"))
		if !slices.ContainsFunc([]string{"argoproj/argo", "argo-cd", "ArgoCD"},
			func(text string) bool { return bytes.Contains(document, []byte(text)) }) ||
			manifest.Check(document, manifest.DefaultBudget()) != nil {
			continue
		}
		var node yaml.Node
		if yaml.Unmarshal(bytes.TrimSuffix(document, []byte("---")), &node) != nil || len(node.Content) == 0 {
			continue // a template, most likely
		}
		var here []Installed
		chart := false
		found := func(version, of string, line int) {
			chart = chart || of != ""
			if version != "" {
				here = append(here, Installed{Version: version, Chart: of, Origin: Origin{File: name, Line: at + line}})
			}
		}
		root := node.Content[0]
		if field(root, "kind") == "ArgoCD" && strings.HasPrefix(field(root, "apiVersion"), group+"/") {
			spec := child(root, "spec")
			found(tagVersion(field(spec, "version")), "", lineOf(spec, "version"))
		}
		visitInstall(&node, slices.Contains([]string{"Deployment", "StatefulSet"}, field(root, "kind")), found)
		visitValues(&node, chart, func(version string, line int) {
			here = slices.DeleteFunc(here, func(one Installed) bool { return one.Chart != "" })
			here = append(here, Installed{Version: version, Origin: Origin{File: name, Line: at + line}, values: true})
		})
		out = append(out, here...)
	}
	return out
}

// tagVersion returns the version of an image's tag; "" if it has none.
func tagVersion(tag string) string {
	return strings.Join(append(installTag.FindStringSubmatch(tag), "", "")[1:], "")
}

// visitValues calls found for each global.image.tag in values of the chart below a node, and for parameters of that
// name. ours says that the values are those of the chart. Those of a chart around it are below argo-cd.
func visitValues(n *yaml.Node, ours bool, found func(version string, line int)) {
	switch n.Kind {
	case yaml.ScalarNode: // values as text
		var inner yaml.Node
		text := []byte(n.Value)
		if ours && n.Tag == "!!str" && strings.Contains(n.Value, "global:") &&
			manifest.Check(text, manifest.DefaultBudget()) == nil && yaml.Unmarshal(text, &inner) == nil {
			visitValues(&inner, true, func(version string, line int) { found(version, n.Line+line) })
		}
		return
	case yaml.MappingNode:
		image := child(child(n, "global"), "image")
		if ours || strings.HasSuffix("/"+field(image, "repository"), "/argoproj/argocd") {
			if v := tagVersion(field(image, "tag")); v != "" {
				found(v, lineOf(image, "tag"))
			}
		}
		if v := tagVersion(field(n, "value")); ours && field(n, "name") == "global.image.tag" && v != "" {
			found(v, lineOf(n, "value"))
		}
		for k := 0; k+1 < len(n.Content); k += 2 {
			visitValues(n.Content[k+1], ours || n.Content[k].Value == "argo-cd", found)
		}
		return
	}
	for _, inner := range n.Content {
		visitValues(inner, ours, found)
	}
}

// child returns the value of a key of a mapping; an empty node if there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	for k := 0; n.Kind == yaml.MappingNode && k+1 < len(n.Content); k += 2 {
		if n.Content[k].Value == key {
			return n.Content[k+1]
		}
	}
	return &yaml.Node{}
}

func lineOf(n *yaml.Node, key string) int { return child(n, key).Line }

// installsArchive finds the version in a packed copy of the chart.
func installsArchive(name string, data []byte) []Installed {
	const most = 1 << 20 // bytes before the end of Chart.yaml, which is the first file
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil // such as a pointer of Git LFS
	}
	for archive := tar.NewReader(io.LimitReader(unpacked, most)); ; {
		head, err := archive.Next()
		if err != nil {
			return nil // a copy that cannot be read tells no version
		}
		if head.Name != "argo-cd/Chart.yaml" {
			continue
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			return nil
		}
		out := installs(name, text)
		for n := range out {
			out[n].Origin.Line = 1
		}
		return out
	}
}

// replaced drops the version that a chart implies where its values name an image. The values are beside the chart or in
// a folder of it.
func replaced(list []Installed) []Installed {
	return slices.DeleteFunc(slices.Clone(list), func(one Installed) bool {
		return one.Chart != "" && slices.ContainsFunc(list, func(other Installed) bool {
			dir := path.Dir(one.Origin.File)
			return other.values && (dir == path.Dir(other.Origin.File) || strings.HasPrefix(other.Origin.File, dir+"/"))
		})
	})
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
			found(tagVersion(text("newTag")), "", n.Line)
		}
		switch {
		case text("chart") == "argo-cd" && text("targetRevision") != "":
			found(ofChart(text("targetRevision")), "chart argo-cd "+text("targetRevision"), n.Line)
		case text("chart") == "argo-cd" && text("resolved")+text("version") != "": // of sluice.lock, or of a HelmRelease
			version := cmp.Or(text("resolved"), text("version"))
			found(ofChart(version), "chart argo-cd "+version, n.Line)
		case text("name") == "argo-cd" && text("appVersion") != "":
			found(tagVersion(text("appVersion")), "", n.Line)
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
