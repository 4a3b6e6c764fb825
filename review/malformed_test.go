package review

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

// A head with a malformed tree gets a report with an error. As an error of the review, the service would try again and
// again, and the merge request would get no status.
func TestMalformedTreesFailTheReview(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	h.Commit("fleet", map[string]string{
		"sluice.yaml":       "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"clusters/dev.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: 1.33.2}\n",
		"policy/rules.rego": "package main\n",
	})
	const bad = `b=$(echo x | git hash-object -w --stdin) && t=$(printf "100644 blob $b\tpasswd\n" | git mktree)
bad() { (git ls-tree "$1"; printf "040000 tree $t\t..\n") | git mktree --missing; }
`
	for branch, script := range map[string]string{
		"root":   `r=$(bad HEAD)`,
		"policy": `p=$(bad HEAD:policy) && r=$( (git ls-tree HEAD | grep -v policy; printf "040000 tree $p\tpolicy\n") | git mktree --missing)`,
	} {
		cmd := exec.CommandContext(t.Context(), "bash", "-ec",
			bad+script+` && git update-ref refs/heads/`+branch+` $(git -c user.name=A -c user.email=a@example.com commit-tree -p HEAD -m x $r)`)
		cmd.Dir = filepath.Join(h.Root, "fleet")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the error is %v\nthe output is\n%s", err, out)
		}
	}
	r := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	s, err := session.Open(t.Context(), r, session.Options{
		Repo: filepath.Join(h.Root, "fleet"), Jobs: 2,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	base, err := s.Commit(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	for _, branch := range []string{"root", "policy"} {
		head, err := s.Commit(t.Context(), branch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := inProcess(t, s, Request{
			Request: compare.Request{Base: base, Head: head, Key: []byte("k")},
			Policy:  base.Tree,
		})
		if err != nil {
			t.Errorf("%s: the error is %v", branch, err)
			continue
		}
		if text, _ := report.Markdown(got, 60_000); got.Verdict != report.VerdictError ||
			!strings.Contains(text, "..") {
			t.Errorf("%s: verdict %s\n%s", branch, got.Verdict, text)
		}
	}
}
