package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// imported is a repository of the corpus with the entry of spec.import that reads it.
type imported struct {
	folder string // below the corpus
	source string // on the page; the name of the repository if empty
	entry  string
	files  func(dir string) (map[string]string, error) // that are written beside the repository's; nil for none
}

func (r *run) fluxRepositories() (Part, error) {
	if r.flux == "" {
		return Part{}, errNoTool
	}
	const two = "{flux: {clusters: {production: {path: clusters/production, environment: all}, staging: {path: clusters/staging, environment: all}}}}"
	return r.imports("Flux's libraries", "fluxcd/pkg/kustomize and Helm 4", []imported{
		{folder: "kustomize/fluxcd--flux2-kustomize-helm-example", entry: two},
		{folder: "kustomize/fluxcd--flux2-multi-tenancy", entry: two},
		{folder: "kustomize/giantswarm--gitops-template", entry: "{flux: {clusters: {mc: {path: management-clusters/MC_NAME, environment: all}}}}"},
		{folder: "flux/bjw-s--home-ops", entry: "{flux: {clusters: {main: {path: kubernetes/main/flux, environment: all}}}}"},
		{folder: "flux/onedr0p--home-ops", entry: "{flux: {clusters: {main: {path: kubernetes/flux/cluster, environment: all}}}}"},
	})
}

func (r *run) argocdRepositories() (Part, error) {
	if r.argocd == "" {
		return Part{}, errNoTool
	}
	const local = "in-cluster: {server: \"https://kubernetes.default.svc\", environment: all}"
	return r.imports("Argo CD 3.5.7", "its generators of ApplicationSets, and the manifest generation of its repository server with Helm 4", []imported{
		{
			folder: "argocd/argoproj--argo-cd/test/e2e/testdata", source: "argoproj/argo-cd, test/e2e/testdata",
			entry: "{argocd: {apps: [argocd/**], repositories: [\"" + testURL + "\"], clusters: {" + local + "}}}", files: eachFolder,
		},
		{
			folder: "argocd/argoproj--argo-cd",
			entry: `{argocd: {repositories: ["https://github.com/argoproj/argo-cd", "https://github.com/argoproj/argocd-example-apps"], clusters: {` + local +
				`, dev: {server: "https://1.2.3.4", environment: all}, prod: {server: "https://2.4.6.8", environment: all}, other: {server: "https://9.8.7.6", environment: all}}}}`,
		},
		{folder: "argocd/gitops-bridge-dev--gitops-bridge", entry: "{argocd: {clusters: {" + local + "}}}"},
		{
			folder: "argocd/redhat-appstudio--infra-deployments",
			entry: `{argocd: {repositories: ["https://github.com/redhat-appstudio/infra-deployments"],` +
				` clusters: {in-cluster-local: {server: "https://kubernetes.default.svc", environment: all}}}}`,
		},
	})
}

const testURL = "https://git.example.com/acme/fleet"

// eachFolder returns an Application for each folder of Argo CD's tests.
func eachFolder(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s, namespace: argocd}\nspec:\n  project: default\n  source: {repoURL: %s, path: %s}\n  destination: {server: https://kubernetes.default.svc, namespace: ns}\n",
			strings.ToLower(strings.ReplaceAll(e.Name(), "_", "-")), testURL, e.Name()))
	}
	return map[string]string{"argocd/all.yaml": strings.Join(all, "---\n")}, nil
}

// imports compares repositories with the code of a tool, through `sluice import --check`.
func (r *run) imports(tool, code string, repositories []imported) (Part, error) {
	part := Part{Tool: tool, Call: "`sluice import --check`, which runs " + code}
	for _, repository := range repositories {
		row, err := r.importRow(repository)
		if err != nil {
			return Part{}, fmt.Errorf("%s: %w", repository.folder, err)
		}
		part.Rows = append(part.Rows, row)
	}
	return part, nil
}

func (r *run) importRow(repository imported) (Row, error) {
	from := filepath.Join(r.corpus, filepath.FromSlash(repository.folder))
	row := Row{Source: repository.source}
	if row.Source == "" {
		row.Source = nameOf(from)
	}
	var err error
	if row.ID, err = r.treeID(from); err != nil {
		return row, err
	}
	dir, err := os.MkdirTemp(r.dir, "import-")
	if err != nil {
		return row, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return row, err
	}
	files := map[string]string{}
	if repository.files != nil {
		if files, err = repository.files(dir); err != nil {
			return row, err
		}
	}
	files["sluice.yaml"] = "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: parity}\nspec: {environments: [{name: all}], policy: {enforce: false}, import: [" + repository.entry + "]}\n"
	if err := write(dir, files); err != nil {
		return row, err
	}
	out, err := r.command(dir, r.sluice, "import", "--check", "-q", "-o", "json")
	if err != nil && !failed(err) {
		return row, err
	}
	var answer struct {
		Objects, Apps                    int
		Differences, NotCompared, Unread []string
	}
	if e := json.Unmarshal([]byte(out.stdout), &answer); e != nil {
		return row, errors.Join(e, err, errors.New(out.stderr))
	}
	row.Units, row.Equal = answer.Apps, answer.Objects
	for _, text := range answer.Differences {
		cause := known().of(text)
		if strings.Contains(text, "Sluice does not") {
			row.Refused++
		} else {
			row.Different++
		}
		what, _, _ := strings.Cut(text, ", Sluice does not: ")
		row.Differences = append(row.Differences, Difference{what, cause, 1})
	}
	row.Differences = together(row.Differences)
	for _, text := range append(answer.NotCompared, answer.Unread...) {
		row.skip(1, known().of(text))
	}
	return row, nil
}

// together makes one entry of more than three differences of an app with one cause.
func together(list []Difference) []Difference {
	const most = 3
	type key struct{ app, cause string }
	count := map[key]int{}
	of := func(d Difference) key {
		app, _, _ := strings.Cut(d.What, ": ")
		return key{app, d.Cause}
	}
	for _, d := range list {
		count[of(d)]++
	}
	var out []Difference
	for _, d := range list {
		k := of(d)
		switch n := count[k]; {
		case n > most:
			out = append(out, Difference{fmt.Sprintf("%s: %d objects", k.app, n), k.cause, n})
			count[k] = 0
		case n > 0:
			out = append(out, d)
		}
	}
	return out
}
