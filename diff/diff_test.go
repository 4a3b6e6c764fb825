package diff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// objects decodes a YAML stream; keys are the canonical text.
func objects(tb testing.TB, text string) []diff.Object {
	tb.Helper()
	list, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
	if err != nil {
		tb.Fatal(err)
	}
	out := make([]diff.Object, len(list))
	for i, o := range list {
		data, err := manifest.Encode(o)
		if err != nil {
			tb.Fatal(err)
		}
		out[i] = diff.Object{Key: string(data), Object: o}
	}
	return out
}

// clusters is a fleet that has every app on some clusters; nil does not know them.
type clusters []diff.Cluster

func (c clusters) Placed(string) []diff.Cluster { return c }

// of returns the fleet of some targets.
func of(targets []diff.Target) clusters {
	var out clusters
	for i := range targets {
		out = append(out, diff.Cluster{Name: targets[i].Cluster, Environment: targets[i].Environment})
	}
	return out
}

// one compares one target.
func one(tb testing.TB, before, after string) *diff.ChangeSet {
	tb.Helper()
	t := diff.Target{
		App: "shop", Cluster: "prod-1", Environment: "prod", Before: objects(tb, before),
		After: objects(tb, after),
	}
	return diff.Compare([]diff.Target{t}, nil, []string{"prod"}, clusters(nil))
}

func change(tb testing.TB, before, after string) *diff.ObjectChange {
	tb.Helper()
	set := one(tb, before, after)
	if len(set.Groups) != 1 || len(set.Groups[0].Objects) != 1 {
		tb.Fatalf("want one change, got %+v", set.Groups)
	}
	return &set.Groups[0].Objects[0]
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels: {helm.sh/chart: web-1.0.0, app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {checksum/config: aaa}
    spec:
      containers:
        - name: web
          image: registry.example.com/web:1.2.0
          env:
            - {name: A, value: "1"}
            - {name: B, value: "2"}
        - name: side
          image: side:1
`

func TestOrderAndFormattingAreNoChange(t *testing.T) {
	other := strings.Replace(deployment, `{name: B, value: "2"}`, `{value: '2', name: B}`, 1)
	if set := one(t, deployment, other); !set.Empty() {
		t.Fatalf("the order of keys is a change: %+v", set.Groups[0].Objects)
	}
	for _, object := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n%s",
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\nsecrets:\n%s",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: web}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: web}\nsubjects:\n%s",
	} {
		a, b := "  - {kind: User, name: a, port: 1}\n", "  - {kind: User, name: b, port: 2}\n"
		if set := one(t, fmt.Sprintf(object, a+b), fmt.Sprintf(object, b+a)); !set.Empty() {
			t.Errorf("another order is a change of\n%s", object)
		}
	}
}

func TestFieldsHavePathsWithMergeKeys(t *testing.T) {
	after := strings.NewReplacer("web:1.2.0", "web:1.3.0", `{name: B, value: "2"}`, `{name: B, value: "3"}`,
		"replicas: 2", "replicas: 3").Replace(deployment)
	c := change(t, deployment, after)
	var got []string
	for _, f := range c.Fields {
		got = append(got, fmt.Sprintf("%s: %v → %v", f.Path, f.Old, f.New))
	}
	want := []string{
		"spec.replicas: 2 → 3",
		"spec.template.spec.containers[name=web].env[name=B].value: 2 → 3",
		"spec.template.spec.containers[name=web].image: registry.example.com/web:1.2.0 → registry.example.com/web:1.3.0",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("fields:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !c.Rolls || len(c.Images) != 1 || c.Images[0] != (diff.Image{
		Container: "web",
		Old:       "registry.example.com/web:1.2.0", New: "registry.example.com/web:1.3.0",
	}) {
		t.Errorf("rolls %v, images %v", c.Rolls, c.Images)
	}
	set := one(t, deployment, after)
	if s := set.Groups[0].Summary; s != "web 1.2.0 → 1.3.0; rolls 1 workload" {
		t.Errorf("summary %q", s)
	}
	text := strings.Join(c.Hunks[0].Lines, "\n")
	if !strings.Contains(text, "-  replicas: 2\n+  replicas: 3") {
		t.Errorf("hunk\n%s", text)
	}
}

func TestNoiseIsFoldedAndStillRolls(t *testing.T) {
	after := strings.NewReplacer("web-1.0.0", "web-1.1.0", "checksum/config: aaa",
		"checksum/config: bbb").Replace(deployment)
	c := change(t, deployment, after)
	if !c.OnlyNoise() || len(c.Noise) != 2 || !c.Rolls || len(c.Hunks) != 0 {
		t.Fatalf("the result of change is %+v", c)
	}
	set := one(t, deployment, after)
	if n := set.Totals; n != (diff.Counts{Noise: 1, Workloads: 1}) {
		t.Errorf("totals %+v", n)
	}
	// If another field changes too, noise is not in the hunks.
	c = change(t, deployment, strings.Replace(after, "replicas: 2", "replicas: 4", 1))
	text := fmt.Sprint(c.Hunks)
	if strings.Contains(text, "+  "+"    checksum") || strings.Contains(text, "bbb") ||
		!strings.Contains(text, "replicas: 4") {
		t.Errorf("hunks %s", text)
	}
}

func TestRenames(t *testing.T) {
	config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: shop}\ndata: {a: one, b: two, c: three, d: four, e: %s}\n"
	for name, tc := range map[string]struct {
		before, after string
		want          diff.Verb
		changes       int
	}{
		"generated suffix": {
			fmt.Sprintf(config, "web-5f7c9d8b6k", "x"), fmt.Sprintf(config, "web-7h2m4t9c8d", "y"),
			diff.Renamed, 1,
		},
		"same content": {fmt.Sprintf(config, "web", "x"), fmt.Sprintf(config, "front", "x"), diff.Renamed, 1},
		"other content": {
			fmt.Sprintf(config, "web", "x"),
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: shop}\ndata: {z: z}\n", diff.Added,
			2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := one(t, tc.before, tc.after)
			if n := len(set.Groups[0].Objects); n != tc.changes {
				t.Fatalf("%d changes: %+v", n, set.Groups[0].Objects)
			}
			if !slices.ContainsFunc(set.Groups[0].Objects,
				func(o diff.ObjectChange) bool { return o.Verb == tc.want }) {
				t.Errorf("no %s in %+v", tc.want, set.Groups[0].Objects)
			}
		})
	}
}

func TestEffects(t *testing.T) {
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop}\nspec: {resources: {requests: {storage: 10Gi}}, storageClassName: fast}\n"
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: shop}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n"
	crd := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\nspec: {group: b.c, names: {kind: A}, scope: Namespaced, versions: [{name: v1, served: true}, {name: v1beta1, served: true}]}\n"
	for name, tc := range map[string]struct {
		before, after string
		want          diff.EffectName
		risk          diff.Risk
	}{
		"selector": {
			deployment, strings.Replace(deployment, "matchLabels: {app: web}", "matchLabels: {app: shop}", 1),
			diff.EffectImmutable, diff.RiskCritical,
		},
		"zero": {
			deployment, strings.Replace(deployment, "replicas: 2", "replicas: 0", 1), diff.EffectZeroReplicas,
			diff.RiskHigh,
		},
		"shrink": {claim, strings.Replace(claim, "10Gi", "9Gi", 1), diff.EffectStorageShrinks, diff.RiskCritical},
		"class":  {claim, strings.Replace(claim, "fast", "slow", 1), diff.EffectImmutable, diff.RiskCritical},
		"claim":  {claim, "", diff.EffectDataLoss, diff.RiskCritical},
		"crd":    {crd, "", diff.EffectCRDRemoved, diff.RiskCritical},
		"version": {
			crd, strings.Replace(crd, ", {name: v1beta1, served: true}", "", 1), diff.EffectCRDVersion,
			diff.RiskCritical,
		},
		"rights": {
			role, strings.Replace(role, "verbs: [get]", "verbs: [get, delete]", 1), diff.EffectRBACWidened,
			diff.RiskHigh,
		},
		"new role": {"", role, diff.EffectRBACWidened, diff.RiskHigh},
		"rolls":    {deployment, strings.Replace(deployment, "side:1", "side:2", 1), diff.EffectRolls, diff.RiskMedium},
		"hook": {deployment, strings.Replace(deployment, "app: web}\nspec",
			"app: web}\n  annotations: {helm.sh/hook: pre-install}\nspec", 1), diff.EffectHook, diff.RiskMedium},
	} {
		t.Run(name, func(t *testing.T) {
			c := change(t, tc.before, tc.after)
			if !slices.ContainsFunc(c.Effects, func(e diff.Effect) bool {
				return e.Name == tc.want &&
					e.Risk == tc.risk
			}) || c.Risk.Rank() > tc.risk.Rank() {
				t.Errorf("no %s of %s in %+v (%s)", tc.want, tc.risk, c.Effects, c.Risk)
			}
		})
	}
	t.Run("narrower role", func(t *testing.T) {
		wide := strings.Replace(role, "[pods]", `["*"]`, 1)
		if c := change(t, wide, role); len(c.Effects) != 0 {
			t.Errorf("the effects are %+v", c.Effects)
		}
	})
}

func TestRightsOfARole(t *testing.T) {
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: shop}\nrules: [{apiGroups: ['', apps], resources: [pods], verbs: [get, VERB]}, {nonResourceURLs: [/healthz], verbs: [get]}]\n"
	c := change(t, strings.Replace(role, "VERB", "list", 1), strings.Replace(role, "VERB", "delete", 1))
	want := []diff.Right{
		{Resource: "pods", Verb: "delete", Has: true},
		{Resource: "pods", Verb: "get", Had: true, Has: true},
		{Resource: "pods", Verb: "list", Had: true},
		{Resource: "pods.apps", Verb: "delete", Has: true},
		{Resource: "pods.apps", Verb: "get", Had: true, Has: true},
		{Resource: "pods.apps", Verb: "list", Had: true},
		{Resource: "url /healthz", Verb: "get", Had: true, Has: true},
	}
	if !slices.Equal(c.Rights, want) {
		t.Errorf("rights %+v", c.Rights)
	}
}

func TestAlignedListsShowNoMovedElements(t *testing.T) {
	config := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: p, namespace: shop}\nsecrets: [LIST]\n"
	list := func(names string) string {
		var items []string
		for n := range strings.SplitSeq(names, "") {
			items = append(items, "{name: "+n+"}")
		}
		return strings.Replace(config, "LIST", strings.Join(items, ", "), 1)
	}
	for _, tc := range []struct{ before, after, want string }{
		{"abc", "xabc", "+x"},
		{"abc", "czba", "+z"},
		{"abc", "xzb", "+x+z-a-c"},
		{"a", "bxaz", "+b+x+z"},
		{"abc", "bxcza", "+x+z"},
	} {
		c := change(t, list(tc.before), list(tc.after))
		var got []string
		for _, h := range c.Hunks {
			for _, l := range h.Lines {
				if name, ok := strings.CutPrefix(strings.TrimLeft(l[1:], " -"), "name: "); ok && l[0] != ' ' {
					got = append(got, l[:1]+name)
				}
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, ""); text != tc.want {
			t.Errorf("%s → %s is shown as %s, want %s", tc.before, tc.after, text, tc.want)
		}
	}
}

func TestPathOfAHunk(t *testing.T) {
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r, namespace: shop}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n"
	for _, tc := range []struct{ before, old, now, want string }{
		{role, "verbs: [get]", "verbs: [list]", "rules[].verbs"},
		{role, "apiGroups: ['']", "apiGroups: [apps]", "rules[].apiGroups"},
		{deployment, `{name: A, value: "1"}`, `{name: A, value: "5"}`, "spec.template.spec.containers[web].env[A]"},
		{deployment, "web:1.2.0", "web:1.3.0", "spec.template.spec.containers[web]"},
		{deployment, "replicas: 2", "replicas: 3", "spec"},
	} {
		c := change(t, tc.before, strings.Replace(tc.before, tc.old, tc.now, 1))
		if got := c.Hunks[0].Path; got != tc.want {
			t.Errorf("%s: path %q, want %q", tc.now, got, tc.want)
		}
	}
}

func TestSplitImage(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for image, want := range map[string]string{
		"web": "web (none)", "web:1.2": "web 1.2", "r.example.com:5000/web": "r.example.com:5000/web (none)",
		"r.example.com:5000/a/web:1.2" + digest: "r.example.com:5000/a/web 1.2@sha256:0123456789ab",
		"web" + digest:                          "web sha256:0123456789ab",
	} {
		p := diff.SplitImage(image)
		if got := p.Repository + " " + p.Version(); got != want {
			t.Errorf("%s: the result is %s, want %s", image, got, want)
		}
	}
}

// fleet returns a target for each of n clusters, from a template of its name and domain.
func fleet(tb testing.TB, n int, before, after func(i int) string) []diff.Target {
	tb.Helper()
	var out []diff.Target
	for i := range n {
		environment := "prod"
		if i%3 == 0 {
			environment = "staging"
		}
		out = append(out, diff.Target{
			App: "shop", Cluster: fmt.Sprintf("c-%03d", i), Environment: environment,
			Facts: func() map[string]string {
				return map[string]string{
					"cluster.name":        fmt.Sprintf("c-%03d", i),
					"cluster.vars.domain": fmt.Sprintf("d%03d.example.com", i),
				}
			},
			Before: objects(tb, before(i)), After: objects(tb, after(i)),
		})
	}
	return out
}

func TestIdenticalChangesAreOneGroup(t *testing.T) {
	after := strings.Replace(deployment, "1.2.0", "1.3.0", 1)
	targets := fleet(t, 9, func(int) string { return deployment }, func(int) string { return after })
	set := diff.Compare(targets, nil, []string{"staging", "prod"}, of(targets))
	if len(set.Groups) != 1 || diff.Patterns(set.Groups[0].Where) != "all clusters (9)" {
		t.Fatalf("%d groups, %s", len(set.Groups), diff.Patterns(set.Groups[0].Where))
	}
	if set.Totals.Changed != 9 || set.Apps[0].Clusters != 9 || set.Apps[0].Groups != 1 {
		t.Errorf("the totals are %+v, the apps are %+v", set.Totals, set.Apps)
	}
}

// Targets that share a list of objects, or the beginning of one, and differ in the rest have changes of their own.
func TestTargetsThatShareLists(t *testing.T) {
	both := objects(t, deployment+"---\n"+strings.Replace(deployment, "name: web", "name: other", 1))
	first, after := both[:1], objects(t, strings.Replace(deployment, "1.2.0", "1.3.0", 1))
	target := func(cluster string, before, after []diff.Object) diff.Target {
		return diff.Target{App: "shop", Cluster: cluster, Environment: "prod", Before: before, After: after}
	}
	kept := target("e", first, nil)
	kept.Keeps = "it is suspended"
	targets := []diff.Target{
		target("a", first, after), target("b", both, after), target("c", first, nil), target("d", nil, after), kept,
		target("f", first, after), target("g", slices.Clone(first), after),
	}
	set := diff.Compare(targets, nil, []string{"prod"}, clusters(nil))
	var got []string
	for _, g := range set.Groups {
		got = append(got, strings.Join(g.Clusters, " "))
	}
	slices.Sort(got)
	if want := []string{"a f g", "b", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}

// As soon as two clusters with the same change have no fact in common, the facts of the others do not matter.
func TestFewFactsOfAnIdenticalChange(t *testing.T) {
	targets := fleet(t, 50, func(int) string { return deployment },
		func(int) string { return strings.Replace(deployment, "1.2.0", "1.3.0", 1) })
	asked := 0
	for i := range targets {
		facts := targets[i].Facts
		targets[i].Facts = func() map[string]string { asked++; return facts() }
	}
	if set := diff.Compare(targets, nil, []string{"staging", "prod"}, clusters(nil)); len(set.Groups) != 1 || asked != 2 {
		t.Errorf("%d groups, the facts of %d clusters", len(set.Groups), asked)
	}
}

func TestValuesOfTheClusterDoNotSplitAGroup(t *testing.T) {
	text := func(port int) func(i int) string {
		return func(i int) string {
			return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web-c-%03d, namespace: shop}\ndata: {url: 'https://shop.d%03d.example.com:%d/', id: c-%03d}\n", i, i, port, i)
		}
	}
	targets := fleet(t, 6, text(1), text(2))
	set := diff.Compare(targets, nil, []string{"staging", "prod"}, clusters(nil))
	if len(set.Groups) != 1 || len(set.Groups[0].Clusters) != 6 {
		t.Fatalf("%d groups", len(set.Groups))
	}
	if v := set.Groups[0].Varies; !slices.Equal(v, []string{"cluster.name", "cluster.vars.domain"}) {
		t.Errorf("varies %v", v)
	}
	// Without facts from the registry, each change is a separate group.
	for i := range targets {
		targets[i].Facts = nil
	}
	if set = diff.Compare(targets, nil, []string{"staging", "prod"}, clusters(nil)); len(set.Groups) != 6 {
		t.Errorf("%d groups without facts", len(set.Groups))
	}
	// A value that is not a fact of the cluster splits the group.
	targets = fleet(t, 6, text(1), func(i int) string {
		return strings.Replace(text(2)(i), ":2/",
			fmt.Sprintf(":%d/", 10+i%2), 1)
	})
	if set = diff.Compare(targets, nil, []string{"staging", "prod"}, clusters(nil)); len(set.Groups) != 2 {
		t.Errorf("%d groups with two ports", len(set.Groups))
	}
}

func TestMask(t *testing.T) {
	m := diff.NewMasker([]byte("key"))
	secret := objects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: shop}\ndata: {password: aHVudGVyMmh1bnRlcjI=}\nstringData: {user: administrator}\n")[0].Object
	config := objects(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: shop}
data:
  url: postgres://administrator:hunter2hunter2@db/shop
  b64: aHVudGVyMmh1bnRlcjI=
  other: https://bob:s3cretpass@example.com/
  token: ghp_abcdefghijklmnopqrstuvwxyz0123456789
  key: |
    -----BEGIN RSA PRIVATE KEY-----
    MIIabc
    -----END RSA PRIVATE KEY-----
  plain: nothing to see
`)[0].Object
	m.Learn(secret)
	masked := fmt.Sprint(m.Mask(secret), m.Mask(config))
	for _, leak := range []string{"hunter2", "aHVudGVy", "administrator", "s3cretpass", "ghp_", "MIIabc"} {
		if strings.Contains(masked, leak) {
			t.Errorf("%q leaks: %s", leak, masked)
		}
	}
	for _, want := range []string{"nothing to see", "14 bytes", "https://bob:‹masked", "@example.com/"} {
		if !strings.Contains(masked, want) {
			t.Errorf("no %q in %s", want, masked)
		}
	}
	// A changed value has another fingerprint, equal values have equal ones, and another key gives other
	// fingerprints.
	other := objects(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: shop}\ndata: {password: aHVudGVyM2h1bnRlcjM=}\n")[0].Object
	data := func(m *diff.Masker, o manifest.Object) string { return fmt.Sprint(m.Mask(o)["data"]) }
	if data(m, secret) == data(m, other) || data(m, secret) != data(diff.NewMasker([]byte("key")), secret) ||
		data(m, secret) == data(diff.NewMasker([]byte("x")), secret) {
		t.Error("fingerprints do not tell values apart")
	}
	if fmt.Sprint(secret) != fmt.Sprint(objects(t,
		"apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: shop}\ndata: {password: aHVudGVyMmh1bnRlcjI=}\nstringData: {user: administrator}\n")[0].Object) {
		t.Error("Mask changed its argument")
	}
}

func FuzzCompare(f *testing.F) {
	f.Add(deployment, strings.Replace(deployment, "1.2.0", "1.3.0", 1))
	f.Add("apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: [{name: 1}, 2]",
		"apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: [{name: 1}, {name: 1}]")
	f.Fuzz(func(t *testing.T, a, b string) {
		budget := manifest.DefaultBudget()
		x, err1 := manifest.Decode([]byte(a), budget)
		y, err2 := manifest.Decode([]byte(b), budget)
		if err1 != nil || err2 != nil {
			return
		}
		list := func(in []manifest.Object) []diff.Object {
			var out []diff.Object
			for _, o := range in {
				data, err := manifest.Encode(o)
				if err != nil {
					return nil
				}
				out = append(out, diff.Object{Key: string(data), Object: o})
			}
			return out
		}
		target := diff.Target{App: "a", Cluster: "c", Environment: "e", Before: list(x), After: list(y)}
		set := diff.Compare([]diff.Target{target}, nil, []string{"e"}, clusters(nil))
		for _, g := range set.Groups {
			for _, o := range g.Objects {
				if o.Verb == diff.Changed && len(o.Fields)+len(o.Noise) == 0 {
					t.Errorf("%s changed in nothing", o.ID)
				}
			}
		}
		target.After = target.Before
		if set := diff.Compare([]diff.Target{target}, nil, []string{"e"}, clusters(nil)); len(set.Groups) != 0 &&
			distinct(x) {
			t.Errorf("an equal target changes: %+v", set.Groups)
		}
	})
}

func distinct(list []manifest.Object) bool {
	seen := map[manifest.Identity]bool{}
	for _, o := range list {
		if seen[o.Identity()] {
			return false
		}
		seen[o.Identity()] = true
	}
	return true
}

// The order of a list counts wherever something reads it: pods roll, variables see those before them, routes and steps
// are taken one after the other.
func TestOrderOfLists(t *testing.T) {
	const pod = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  template:\n    spec:\n"
	for list, test := range map[string]struct {
		path  string
		rolls bool
		text  string // with the list at the end
	}{
		"init containers": {"spec.template.spec.initContainers", true, pod + "      initContainers:"},
		"containers":      {"spec.template.spec.containers", true, pod + "      containers:"},
		"variables": {
			"spec.template.spec.containers[name=web].env", true, pod + "      containers:\n      - name: web\n        env:",
		},
		"ports of a container": {
			"spec.template.spec.containers[name=web].ports", true,
			pod + "      containers:\n      - name: web\n        ports:",
		},
		"routes": {
			"spec.http", false,
			"apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: web, namespace: shop}\nspec:\n  http:",
		},
		"steps": {
			"spec.steps", false,
			"apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: web, namespace: shop}\nspec:\n  steps:",
		},
	} {
		with := func(names ...string) string {
			text := test.text + "\n"
			for _, name := range names {
				text += fmt.Sprintf("        - {name: %s, containerPort: 80}\n", name)
			}
			return text
		}
		set := one(t, with("a", "b", "c"), with("b", "a", "c"))
		if len(set.Groups) != 1 {
			t.Errorf("%s in another order: got %d groups, want 1", list, len(set.Groups))
			continue
		}
		o := set.Groups[0].Objects[0]
		if len(o.Fields) != 1 || o.Fields[0].Path != test.path || o.Rolls != test.rolls || len(o.Hunks) == 0 {
			t.Errorf("%s in another order: got %+v, want the field %s, with its lines", list, o, test.path)
		}
		if set := one(t, with("a", "c"), with("a", "b", "c")); len(set.Groups[0].Objects[0].Fields) != 1 {
			t.Errorf("%s: a new element in the middle is %+v, want one field", list, set.Groups[0].Objects[0].Fields)
		}
	}
}
