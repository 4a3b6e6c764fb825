package compare_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

func run(r *hydratetest.Repo, request compare.Request) *compare.Comparison {
	r.T.Helper()
	request.Key = []byte("k")
	c, err := compare.Run(r.T.Context(), r.Hydrator(2), request)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(c.Close)
	return c
}

// lines describes groups: app, clusters, and the objects with their verbs.
func lines(set *diff.ChangeSet) []string {
	var out []string
	for _, g := range set.Groups {
		var objects []string
		for _, o := range g.Objects {
			mark := string(o.Verb)
			if o.OnlyNoise() {
				mark = "noise"
			}
			objects = append(objects, mark+" "+o.Title())
		}
		out = append(out, fmt.Sprintf("%s on %s: %s", g.App, diff.Patterns(g.Where), strings.Join(objects, ", ")))
	}
	return out
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestCompareTwoCommits(t *testing.T) {
	for _, hydrated := range []bool{false, true} {
		t.Run(fmt.Sprintf("hydrated %v", hydrated), func(t *testing.T) {
			r := hydratetest.Demo(t)
			if hydrated {
				r.Hydrate(nil)
			}
			r.Write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: CAD}\n")
			r.Commit("Canada")
			c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
			expectLines(t, lines(c.Changes),
				"shop on prod/prod-us-1: noise Deployment shop/shop, changed ConfigMap shop/shop")
			want := 2 // both sides
			if hydrated {
				want = 1
			}
			if c.Rendered != want {
				t.Errorf("rendered %d, want %d", c.Rendered, want)
			}
			if c.Changes.Totals != (diff.Counts{Changed: 1, Noise: 1, Workloads: 1}) {
				t.Errorf("totals %+v", c.Changes.Totals)
			}
		})
	}
}

func TestCompareWithBranches(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Write("apps/shop/layers/environment/prod/values.yaml", "replicas: 9\n")
	r.Git("rm", "-rq", "apps/baseline")
	r.Commit("nine")
	c := run(r, compare.Request{
		Against: compare.AgainstBranches, Environments: []string{"prod"},
		Head: r.Resolve("HEAD"),
	})
	var apps []string
	for _, g := range c.Changes.Groups {
		apps = append(apps, g.App)
	}
	if !slices.Contains(apps, "shop") || !slices.Contains(apps, "baseline") || c.Changes.Totals.Removed == 0 {
		t.Errorf("lines are %v, the totals are %+v", lines(c.Changes), c.Changes.Totals)
	}
	// A hydration makes exactly the changes that the comparison listed.
	result := r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"prod"}; q.MaxDeletions = 1000 })
	for _, e := range result.Environments {
		if e.Name == "prod" && (e.Objects.Added != c.Changes.Totals.Added ||
			e.Objects.Removed != c.Changes.Totals.Removed ||
			e.Objects.Changed != c.Changes.Totals.Changed+c.Changes.Totals.Noise) {
			t.Errorf("promised %+v, got %+v", c.Changes.Totals, e.Objects)
		}
	}
	c = run(r, compare.Request{
		Against: compare.AgainstBranches, Environments: []string{"prod"},
		Head: r.Resolve("HEAD"),
	})
	if !c.Changes.Empty() || c.Rendered != 0 {
		t.Errorf("%v, %d rendered", lines(c.Changes), c.Rendered)
	}
}

// What was rendered before is not rendered again, and readers of the targets do not pay for the groups.
func TestCompareWithRenderedTrees(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Write("apps/shop/layers/environment/prod/values.yaml", "replicas: 9\n")
	r.Commit("nine")
	h := r.Hydrator(2)
	w, err := h.Store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	done, err := h.RenderCommit(t.Context(), hydrate.CommitRequest{
		Environment: "prod", Commit: r.Resolve("HEAD"),
		State: branch.NewState(""),
	}, w)
	if err != nil || len(done.Failures) > 0 {
		t.Fatalf("the done is %+v, the error is %v", done, err)
	}
	st, err := branch.ReadTree(t.Context(), h.Store, done.Tree)
	if err != nil {
		t.Fatal(err)
	}
	request := compare.Request{
		Against: compare.AgainstBranches, Environments: []string{"prod"},
		Head: r.Resolve("HEAD"),
	}
	compared := func() *compare.Comparison {
		c, err := compare.Run(t.Context(), h, request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	want := compared()
	request.Rendered = map[string]*branch.State{"prod": st, "dev": nil}
	got := compared()
	if want.Rendered == 0 || got.Rendered != 0 || len(want.Targets) == 0 ||
		!reflect.DeepEqual(got.Changes, want.Changes) {
		t.Errorf("%d rendered: %v\n%d rendered: %v", want.Rendered, lines(want.Changes), got.Rendered,
			lines(got.Changes))
	}
	request.TargetsOnly = true
	bare := compared()
	if len(bare.Changes.Groups) != 0 || bare.Changes.Compared != want.Changes.Compared ||
		len(bare.Targets) != len(want.Targets) {
		t.Errorf("%d groups, %d compared, %d targets", len(bare.Changes.Groups), bare.Changes.Compared,
			len(bare.Targets))
	}
	for i := range bare.Targets {
		if bare.Targets[i].Trees != want.Targets[i].Trees {
			t.Errorf("the targets are %+v, want %+v", bare.Targets[i], want.Targets[i])
		}
	}
}

func TestComparisonWithholdsWhatFails(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Write("apps/shop/layers/cluster/prod-eu-1/values.yaml", "replicas: many\n")
	r.Write("apps/shop/layers/environment/dev/values.yaml", "replicas: 5\n")
	r.Commit("many")
	c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
	if len(c.Changes.Withheld) != 1 || c.Changes.Withheld[0].Cluster != "prod-eu-1" || c.Changes.Totals.Removed != 0 {
		t.Fatalf("the withheld is %+v, lines are %v", c.Changes.Withheld, lines(c.Changes))
	}
	if len(c.Changes.Groups) != 1 || c.Changes.Groups[0].Clusters[0] != "dev-1" {
		t.Errorf("the others: %v", lines(c.Changes))
	}
	if c.Changes.Compared != 1 {
		t.Errorf("%d targets are compared, but one of two is withheld", c.Changes.Compared)
	}
}

// read returns the objects of one side of a target that differ.
func read(t *testing.T, c *compare.Comparison, target *compare.Target, after bool) []compare.Object {
	t.Helper()
	files := target.Files.Before
	if after {
		files = target.Files.After
	}
	list, err := c.Read(t.Context(), target, files)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestComparisonMasksSecretsWhereverTheyRecur(t *testing.T) {
	r := hydratetest.Demo(t)
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: %s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: url}\ndata: {url: 'postgres://x:%s@db/%d'}\n"
	r.Write("manifests/baseline/db.yaml", fmt.Sprintf(secret, "correct-horse", "correct-horse", 1))
	r.Commit("one")
	r.Write("manifests/baseline/db.yaml", fmt.Sprintf(secret, "battery-staple", "battery-staple", 2))
	r.Commit("two")
	c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
	text := fmt.Sprintf("%+v", c.Changes) + fmt.Sprintf("%+v", read(t, c, &c.Targets[0], true)) +
		fmt.Sprintf("%+v", read(t, c, &c.Targets[0], false))
	for _, leak := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(text, leak) {
			t.Errorf("%s leaks", leak)
		}
	}
	if c.Changes.Totals.Changed != 2*7 || !strings.Contains(text, "14 bytes") {
		t.Errorf("the totals are %+v", c.Changes.Totals)
	}
}

func TestComparisonWithAnInvalidBase(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Write("clusters/dev-1.yaml", "kind: Cluster\n")
	r.Commit("broken")
	r.Git("revert", "--no-edit", "HEAD")
	c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
	if !c.Changes.Empty() || len(c.Notes()) == 0 {
		t.Errorf("lines are %v, Notes are %v", lines(c.Changes), c.Notes())
	}
}

func TestComparisonLeavesOutFrozenClusters(t *testing.T) {
	r := hydratetest.Demo(t)
	data := strings.Replace(r.Read("clusters/prod-us-1.yaml"), "spec:", "spec:\n  state: frozen", 1)
	r.Write("clusters/prod-us-1.yaml", data)
	r.Commit("freeze")
	r.Write("apps/shop/layers/environment/prod/values.yaml", "replicas: 9\n")
	r.Commit("nine")
	c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
	if c.Frozen != 1 || slices.ContainsFunc(c.Changes.Groups,
		func(g diff.Group) bool { return slices.Contains(g.Clusters, "prod-us-1") }) {
		t.Errorf("%d frozen, %v", c.Frozen, lines(c.Changes))
	}
}

func TestPreview(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: CAD}\n")
	r.Commit("Canada")
	preview := func(limit int) *compare.PreviewResult {
		c := run(r, compare.Request{
			Base: r.Resolve("main~1"), Head: r.Resolve("main"),
			Preview: &compare.Preview{Branch: "sluice/preview/7", Title: "Canada", Limit: limit},
		})
		return c.Preview
	}
	first := preview(0)
	if again := preview(5); *first != *again || first.Head != r.Git("rev-parse", "sluice/preview/7") {
		t.Errorf("the first one is %+v, the again is %+v", first, again)
	}
	if got := r.Git("diff", "--name-only", "sluice/preview/7^",
		"sluice/preview/7"); got != "prod/prod-us-1/shop/configmap-shop.yaml\nprod/prod-us-1/shop/deployment-shop.yaml" {
		t.Errorf("the preview changes %q", got)
	}
	r.Git("fsck", "--strict")
	r.Write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: MXN}\n")
	r.Commit("Mexico")
	if second := preview(0); second.Head == first.Head || second.Base != first.Base {
		// the base is main~1, another commit by now
		if r.Git("rev-parse", "sluice/preview/7") != second.Head {
			t.Errorf("the second one is %+v", second)
		}
	}
	c := run(r, compare.Request{
		Base: r.Resolve("main"), Head: r.Resolve("main"),
		Preview: &compare.Preview{Branch: "sluice/preview/7"},
	})
	if c.Preview.Reason == "" || r.Git("branch", "--list", "sluice/preview/*") != "" {
		t.Errorf("%+v: the branch is still there", c.Preview)
	}
}

// listedBefore answers the first listing as it was some time ago.
type listedBefore struct {
	gitstore.Branches
	old map[string]gitstore.Hash
}

func (b *listedBefore) List(ctx context.Context, prefixes ...string) (map[string]gitstore.Hash, error) {
	if old := b.old; old != nil && slices.Equal(prefixes, []string{"sluice/preview/7"}) {
		b.old = nil
		return old, nil
	}
	return b.Branches.List(ctx, prefixes...)
}

// A task lists the refs before it renders. If the branch of the preview has moved since, it is listed again.
func TestPreviewMovedSinceTheListing(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Git("branch", "sluice/preview/7", "main")
	r.Write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: CAD}\n")
	r.Commit("Canada")
	h := r.Hydrator(2)
	b := &listedBefore{h.Branches, map[string]gitstore.Hash{"sluice/preview/7": r.Resolve("main").Hash}}
	c, err := compare.Run(t.Context(), h.WithBranches(b), compare.Request{
		Base: r.Resolve("main~1"),
		Head: r.Resolve("main"), Key: []byte("k"), Preview: &compare.Preview{Branch: "sluice/preview/7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if at := r.Git("rev-parse", "sluice/preview/7"); b.old != nil || at != c.Preview.Head {
		t.Errorf("the branch is at %s, the preview at %s", at, c.Preview.Head)
	}
}

// refusing is a remote whose rules do not let anybody replace what a branch has.
type refusing struct{ gitstore.Branches }

func (refusing) Push(_ context.Context, _ *gitstore.Writer, moves []gitstore.Move, _ gitstore.PushOptions) ([]gitstore.MoveResult, error) {
	return []gitstore.MoveResult{{Move: moves[0], State: gitstore.Rejected, Reason: "protected from force push"}}, nil
}

// A server that refuses the preview does not keep a review from being done.
func TestPreviewThatTheServerRefuses(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: CAD}\n")
	r.Commit("Canada")
	h := r.Hydrator(2)
	c, err := compare.Run(t.Context(), h.WithBranches(refusing{h.Branches}), compare.Request{
		Base: r.Resolve("main~1"), Head: r.Resolve("main"), Key: []byte("k"), Preview: &compare.Preview{Branch: "sluice/preview/7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Preview.Head != "" || c.Preview.Refused != "protected from force push" || len(c.Changes.Groups) == 0 {
		t.Errorf("the preview is %+v with %d groups of changes", c.Preview, len(c.Changes.Groups))
	}
}

// Effects depend on spec.sync of the head's fleet, and on sync of an environment.
func TestEffectsDependOnTheSyncTool(t *testing.T) {
	r := hydratetest.Demo(t)
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: pre-upgrade}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: 'm:%d'}]}}}\n"
	r.Write("manifests/baseline/job.yaml", fmt.Sprintf(job, 1))
	r.Commit("job")
	effects := func(fleet string) map[string]string {
		r.Write("sluice.yaml", fleet)
		r.Write("manifests/baseline/job.yaml", fmt.Sprintf(job, 1))
		r.Commit("sync")
		r.Write("manifests/baseline/job.yaml", fmt.Sprintf(job, 2))
		r.Commit("bump")
		out := map[string]string{}
		for _, g := range run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")}).Changes.Groups {
			for _, e := range g.Environments {
				out[e] = string(g.Objects[0].Effects[0].Name)
			}
		}
		return out
	}
	fleet := r.Read("sluice.yaml")
	if got := effects(fleet + "\n# not said\n"); got["dev"] != string(diff.EffectDependsOnSync) ||
		got["prod"] != string(diff.EffectDependsOnSync) {
		t.Errorf("without spec.sync: %v", got)
	}
	argo := strings.Replace(fleet, "\nspec:\n", "\nspec:\n  sync: argocd\n", 1)
	if got := effects(argo); got["dev"] != string(diff.EffectRerun) || got["prod"] != string(diff.EffectRerun) {
		t.Errorf("with argocd: %v", got)
	}
	if got := effects(strings.Replace(argo, "- name: prod\n", "- name: prod\n      sync: flux\n",
		1)); got["dev"] != string(diff.EffectRerun) || got["prod"] != string(diff.EffectImmutable) {
		t.Errorf("with flux in prod: %v", got)
	}
}
