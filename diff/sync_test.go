package diff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
)

const migration = `
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  namespace: shop
  annotations: {ANNOTATIONS}
spec:
  backoffLimit: 1
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: "registry.example.com/shop:1.2.0"}]
`

// bump returns the change of a Job's image with the given annotations, as sync applies it.
func bump(tb testing.TB, annotations string, sync diff.Sync) *diff.ObjectChange {
	tb.Helper()
	before := strings.Replace(migration, "ANNOTATIONS", annotations, 1)
	target := diff.Target{
		App: "shop", Cluster: "prod-1", Environment: "prod", Sync: sync,
		Before: objects(tb, before), After: objects(tb, strings.Replace(before, "1.2.0", "1.3.0", 1)),
	}
	set := diff.Compare([]diff.Target{target}, nil, []string{"prod"}, clusters(nil))
	if len(set.Groups) != 1 || len(set.Groups[0].Objects) != 1 {
		tb.Fatalf("want one change, got %+v", set.Groups)
	}
	return &set.Groups[0].Objects[0]
}

// A changed Job is refused only if the sync tool updates it in place.
func TestHookJobBySyncTool(t *testing.T) {
	const (
		refused   = "immutable-field critical"
		rerun     = "job-runs-again medium"
		depends   = "depends-on-sync high"
		kept      = "not-applied low"
		helmHook  = "helm.sh/hook: 'pre-install,pre-upgrade'"
		argoHook  = "argocd.argoproj.io/hook: PreSync"
		fluxForce = "kustomize.toolkit.fluxcd.io/force: enabled"
	)
	for _, tc := range []struct {
		name, annotations string
		argo, flux, not   string
	}{
		{"plain", "", refused, refused, refused},
		{"helm hook", helmHook, rerun, refused, depends},
		{
			"helm hook with a policy", helmHook + ", helm.sh/hook-delete-policy: 'before-hook-creation,hook-succeeded'",
			rerun, refused, depends,
		},
		{
			"helm hook kept on failure", helmHook + ", helm.sh/hook-delete-policy: hook-succeeded", depends, refused,
			depends,
		},
		{"argo hook", argoHook, rerun, refused, depends},
		{"argo hook deleted after each run", argoHook +
			", argocd.argoproj.io/hook-delete-policy: 'HookSucceeded,HookFailed'", rerun, refused, depends},
		{
			"argo hook deleted on failure", argoHook + ", argocd.argoproj.io/hook-delete-policy: HookFailed", depends,
			refused, depends,
		},
		{"argo skip", "argocd.argoproj.io/hook: Skip", kept, refused, depends},
		{"helm test", "helm.sh/hook: test", kept, refused, depends},
		{"crd-install is no hook", "helm.sh/hook: crd-install", refused, refused, refused},
		{"argo force", "argocd.argoproj.io/sync-options: 'Replace=true,Force=true'", rerun, refused, depends},
		{"argo replace updates in place", "argocd.argoproj.io/sync-options: Replace=true", refused, refused, refused},
		{"flux force", fluxForce, refused, rerun, depends},
		{"hook with flux force", helmHook + ", " + fluxForce, rerun, rerun, rerun},
		{"flux creates only", "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent", refused, kept, depends},
		{"flux is told to skip", "kustomize.toolkit.fluxcd.io/reconcile: disabled", refused, kept, depends},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for sync, want := range map[diff.Sync]string{
				diff.SyncArgoCD: tc.argo, diff.SyncFlux: tc.flux,
				diff.SyncUnknown: tc.not,
			} {
				c := bump(t, tc.annotations, sync)
				var got []string
				for _, e := range c.Effects {
					if e.Name != diff.EffectImage {
						got = append(got, string(e.Name)+" "+string(e.Risk))
					}
				}
				if !slices.Equal(got, []string{want}) {
					t.Errorf("sync %q: effects %v, want %s", sync, got, want)
				}
				if critical := strings.HasSuffix(want, "critical"); (c.Risk == diff.RiskCritical) != critical {
					t.Errorf("sync %q: risk %s", sync, c.Risk)
				}
			}
		})
	}
	both := bump(t, helmHook, diff.SyncUnknown).Effects[0].Message
	for _, part := range []string{"Argo CD deletes the hook", "Flux updates the object", "spec.sync"} {
		if !strings.Contains(both, part) {
			t.Errorf("the message names no %q: %s", part, both)
		}
	}
}

// The same change under two tools is one group unless its effects differ.
func TestSyncToolSplitsAGroupOnlyByEffect(t *testing.T) {
	target := func(cluster string, sync diff.Sync, before string) diff.Target {
		return diff.Target{
			App: "shop", Cluster: cluster, Environment: "prod", Sync: sync,
			Before: objects(t, before), After: objects(t, strings.Replace(before, "1.2.0", "1.3.0", 1)),
		}
	}
	compare := func(before string) int {
		return len(diff.Compare([]diff.Target{target("a", diff.SyncArgoCD, before), target("b", diff.SyncFlux, before)},
			nil, []string{"prod"}, clusters(nil)).Groups)
	}
	if n := compare(deployment); n != 1 {
		t.Errorf("a Deployment makes %d groups", n)
	}
	if n := compare(strings.Replace(migration, "ANNOTATIONS", "helm.sh/hook: pre-upgrade", 1)); n != 2 {
		t.Errorf("a hook makes %d groups", n)
	}
}

func TestRenamedJobIsRoutine(t *testing.T) {
	before := strings.NewReplacer("ANNOTATIONS", "", "name: migrate\n  namespace",
		"name: migrate-1.2\n  namespace").Replace(migration)
	after := strings.NewReplacer("name: migrate-1.2\n  namespace", "name: migrate-1.3\n  namespace", "1.2.0",
		"1.3.0").Replace(before)
	if c := change(t, before, after); c.Verb != diff.Renamed || c.Risk.Rank() < diff.RiskMedium.Rank() {
		t.Errorf("%s of risk %s: %+v", c.Verb, c.Risk, c.Effects)
	}
}

func TestPruneOptions(t *testing.T) {
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop, annotations: {ANNOTATIONS}}\nspec: {resources: {requests: {storage: 10Gi}}}\n"
	for _, tc := range []struct {
		annotations string
		sync        diff.Sync
		want        diff.Risk
	}{
		{"", diff.SyncUnknown, diff.RiskCritical},
		{"argocd.argoproj.io/sync-options: Prune=false", diff.SyncArgoCD, diff.RiskMedium},
		{"argocd.argoproj.io/sync-options: Prune=false", diff.SyncFlux, diff.RiskCritical},
		{"argocd.argoproj.io/sync-options: Prune=false", diff.SyncUnknown, diff.RiskHigh},
		{"kustomize.toolkit.fluxcd.io/prune: disabled", diff.SyncFlux, diff.RiskMedium},
		{"kustomize.toolkit.fluxcd.io/prune: disabled", diff.SyncArgoCD, diff.RiskCritical},
	} {
		target := diff.Target{
			App: "shop", Cluster: "c", Environment: "prod", Sync: tc.sync,
			Before: objects(t, strings.Replace(claim, "ANNOTATIONS", tc.annotations, 1)),
		}
		set := diff.Compare([]diff.Target{target}, nil, []string{"prod"}, clusters(nil))
		if got := set.Groups[0].Risk; got != tc.want {
			t.Errorf("%q under %q: %s, want %s: %+v", tc.annotations, tc.sync, got, tc.want,
				set.Groups[0].Objects[0].Effects)
		}
	}
}

// If the tool leaves a removed object in the cluster, the object is no longer managed and its content is not lost.
func TestKeptObjects(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: v1\nkind: KIND\nmetadata: {name: x, namespace: shop, annotations: {ANNOTATIONS}}\n"
	for _, tc := range []struct {
		name, kind, annotations, keeps string
		want                           string
	}{
		{"pruned", "ConfigMap", "", "", ""},
		{"an annotation", "ConfigMap", "kustomize.toolkit.fluxcd.io/prune: disabled", "", "orphaned"},
		{"the target", "ConfigMap", "", "the Kustomization apps does not prune", "orphaned"},
		{"a volume", "PersistentVolumeClaim", "", "", "data-loss"},
		{"a deleted target", "ConfigMap", "", "the Kustomization apps is deleted without its objects", "orphaned"},
		{
			"a volume of a deleted target", "PersistentVolumeClaim", "",
			"the Application apps is deleted without its objects", "orphaned",
		},
		{"a volume of the target", "PersistentVolumeClaim", "", "the Kustomization apps is suspended", "orphaned"},
	} {
		text := strings.NewReplacer("KIND", tc.kind, "ANNOTATIONS", tc.annotations).Replace(object)
		target := diff.Target{
			App: "shop", Cluster: "prod-1", Environment: "prod", Sync: diff.SyncFlux, Keeps: tc.keeps,
			Before: objects(t, text),
		}
		set := diff.Compare([]diff.Target{target}, nil, []string{"prod"}, clusters(nil))
		change := set.Groups[0].Objects[0]
		var got []string
		for _, e := range change.Effects {
			got = append(got, string(e.Name))
			if tc.keeps != "" && !strings.Contains(e.Message, tc.keeps) {
				t.Errorf("%s: %q does not say why", tc.name, e.Message)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: effects %v, want %q", tc.name, got, tc.want)
		}
		if tc.want == "orphaned" && change.Risk != diff.RiskMedium {
			t.Errorf("%s: risk %s", tc.name, change.Risk)
		}
		orphaned, verb := tc.want == "orphaned", "removed"
		if orphaned {
			verb = "no longer managed"
		}
		if change.Orphaned() != orphaned {
			t.Errorf("%s: orphaned %v", tc.name, change.Orphaned())
		}
		if s := set.Groups[0].Summary; tc.want != "data-loss" && s != tc.kind+" shop/x "+verb {
			t.Errorf("%s: summary %q", tc.name, s)
		}
	}
}
