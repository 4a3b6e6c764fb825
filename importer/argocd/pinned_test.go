package argocd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/importer/argocd"
	"github.com/sluice-gitops/sluice/importer/internal/pinned"
)

// A source that pins another repository by a whole commit id is read from there, and nothing of it leads out.
func TestCommitOfAnotherRepository(t *testing.T) {
	const (
		url    = "git@git.example.com:acme/lib.git"
		commit = "1234567890123456789012345678901234567890"
		files  = "-- .repositories/lib/chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n" +
			"-- .repositories/lib/values.yaml --\na: b\n" +
			"-- .repositories/lib/plain/c.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n" +
			"-- .repositories/lib/out/kustomization.yaml --\nresources: [../../../secret/c.yaml]\n" +
			"-- .repositories/lib/app.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: of-lib}\n" +
			"-- secret/c.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: hunter2}\n"
	)
	exact := pinned.Commit{URL: "ssh://git@git.example.com/acme/lib.git", Commit: commit, Dir: ".repositories/lib"}
	missing := exact
	missing.Missing = "connection refused"
	at := func(fields string) string {
		return `{repoURL: "` + url + `", targetRevision: "` + commit + `", ` + fields + "}"
	}
	for name, c := range map[string]struct {
		source, want string
		lacks        bool
		has          []pinned.Commit
	}{
		"plain":          {source: "  source: " + at("path: plain"), has: []pinned.Commit{exact}},
		"chart":          {source: "  sources: [" + at("path: chart, helm: {valueFiles: [$lib/values.yaml]}") + ", " + at("ref: lib") + "]", has: []pinned.Commit{exact}},
		"out of it":      {source: "  source: " + at("path: out"), want: "leaves the repository", has: []pinned.Commit{exact}},
		"no directory":   {source: "  source: " + at("path: none"), want: `path: "none" is not a directory`, has: []pinned.Commit{exact}},
		"it is missing":  {source: "  source: " + at("path: plain"), want: "is missing: connection refused", has: []pinned.Commit{missing}},
		"nothing":        {source: "  source: " + at("path: plain"), want: "is not this repository", lacks: true},
		"a branch":       {source: `  source: {repoURL: "` + url + `", targetRevision: main, path: plain}`, want: `the revision "main" can move`, has: []pinned.Commit{exact}},
		"a number":       {source: `  source: {repoURL: "` + url + `", targetRevision: ` + commit + `, path: plain}`, want: "targetRevision is a number in YAML, not text (quote it)", has: []pinned.Commit{exact}},
		"no commit here": {source: `  source: {repoURL: "https://git.example.com/acme/fleet", targetRevision: "` + strings.Repeat("3", 40) + `", path: plain}`, want: "is not the one under review", lacks: true, has: []pinned.Commit{exact}},
	} {
		o := options(app(c.source+"\n") + files)
		o.Pinned = c.has
		all, problems, err := argocd.Import(t.Context(), o)
		if len(c.has) == 0 {
			all = slices.DeleteFunc(all, func(u argocd.Unit) bool { return u.Name != "bad" }) // the files are the repository's own
		}
		if err != nil || len(problems) > 0 && len(c.has) > 0 || len(all) != 1 {
			t.Fatalf("%s: %d units, %v, %v", name, len(all), problems, err)
		}
		u := all[0]
		var lack *pinned.LackError
		switch {
		case errors.As(u.Err, &lack) != c.lacks:
			t.Errorf("%s: a lack is %v, want %v", name, lack, c.lacks)
		case c.want != "" && (u.Err == nil || !strings.Contains(u.Err.Error(), c.want)):
			t.Errorf("%s: the error is %v, want %q", name, u.Err, c.want)
		case c.want == "" && u.Err != nil:
			t.Errorf("%s: %v", name, u.Err)
		case name == "plain" && (len(u.Sources[0].Objects) != 1 || !slices.Contains(u.Reads, ".repositories/lib/plain/c.yaml")):
			t.Errorf("%s: the sources are %+v, from %v", name, u.Sources, u.Reads)
		case name == "chart" && (u.Sources[0].Chart.Path != ".repositories/lib/chart" || u.Sources[0].Chart.Values["a"] != "b" ||
			!slices.Equal(u.Sources[0].Chart.ValuesFiles, []string{".repositories/lib/values.yaml"})):
			t.Errorf("%s: the chart is %+v", name, u.Sources[0].Chart)
		}
	}
}
