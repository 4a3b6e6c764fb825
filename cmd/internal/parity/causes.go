package main

import (
	"regexp"
	"strings"
	"sync"
)

// causes are explanations, by a pattern of the message or of what differs. The first that matches counts.
type causes []struct {
	pattern *regexp.Regexp
	cause   string
}

// unexplained begins the cause of what no pattern matches. The tests accept none.
const unexplained = "UNEXPLAINED: "

// of returns the cause of a message, or the message itself.
func (c causes) of(text string) string {
	for _, entry := range c {
		if entry.pattern.MatchString(text) {
			return entry.cause
		}
	}
	return unexplained + strings.Join(strings.Fields(text), " ")
}

// known explains messages of Sluice and of the tools.
var known = sync.OnceValue(func() causes { //nolint:gochecknoglobals // compiled once, never changed
	const (
		absent = "files are missing: the copy has manifests only, and none above 64 kB"
		others = "content of another repository or of a moving branch: neither side fetches it here"
	)
	pairs := []string{
		`not deterministic`, "the output is random (a generated password). Sluice asks for a fixed value or `unstable: keep`",
		`(?s)schema.*(another document|raw\.githubusercontent)`, "the chart's schema refers to documents on the network",

		`\.hidden-helm`, "a folder whose name begins with a dot: `metadata.name` is no valid name, and Sluice leaves it out",
		`helm-api-versions`, "the chart prints the API versions that the helm program was compiled with",
		`Jsonnet`, "Jsonnet: Sluice refuses it by name",
		`ksonnet`, "a ksonnet `app.yaml` is no Kubernetes object: it has no name",
		`is not registered`, "the Application asks for a version of Kustomize that this Argo CD does not have; Sluice has one version",
		`\(argo-cd-apps/.*(import it|imports it|is not equal|does not render it|does not apply it|app path does not exist)`, "`all-application-sets` brings the ApplicationSets through an overlay. Sluice follows it (`development`); the reference program reads the files of the base (`staging`)",
		`app path does not exist`, "the path exists in an overlay only, which the reference program does not build",

		`enable-helm|HelmChartInflationGenerator|helmCharts`, "charts in a kustomization: kustomize asks for `--enable-helm` and the network, Sluice for `sluice.lock`",
		`is not in sluice\.lock|neither in charts/ nor locked`, "a chart of a repository or registry: neither side fetches it here",
		`not this repository|another repository|reads https?://`, others,
		`(valuesFrom|substituteFrom).*is not in Git`, "values of a Secret that is not in Git",
		`spec\.kubeConfig`, "a Kustomization for another cluster: Sluice refuses it by name",
		`the variable \S+ is not set`, "a variable of `postBuild` is not set: both sides refuse it",
		`asks a server`, "a generator that asks a server",
		`selects clusters by labels`, "clusters that only Argo CD knows",
		`depends on the order`, "two objects of one name: what Argo CD applies depends on the order",
		`two Applications are called`, "a generator makes two Applications of one name: both sides refuse it",
		`(?s)template "|invalid map key|cannot unmarshal|is not valid|is no mapping`, "a template that is not valid, or a file with placeholders",
		`https?://|github\.com|\?ref=`, "a remote base or file: nothing is fetched here. Sluice asks for a pinned commit",
		`no such file|not a valid directory|must build at directory|does not exist|is not a directory`, absent,
	}
	out := make(causes, len(pairs)/2)
	for i := range out {
		out[i].pattern, out[i].cause = regexp.MustCompile(pairs[2*i]), pairs[2*i+1]
	}
	return out
})

// explain applies the causes that are known now to what an earlier run did not explain.
func (r *Results) explain() {
	for i := range r.Parts {
		for j := range r.Parts[i].Rows {
			row := &r.Parts[i].Rows[j]
			for k, d := range row.Differences {
				if text, ok := strings.CutPrefix(d.Cause, unexplained); ok {
					row.Differences[k].Cause = known().of(text)
				}
			}
			row.Differences = together(row.Differences)
			before := row.NotCompared
			row.NotCompared = nil
			for _, reason := range before {
				cause := reason.Cause
				if text, ok := strings.CutPrefix(cause, unexplained); ok {
					cause = known().of(text)
				}
				row.skip(reason.Count, cause)
			}
		}
	}
}
