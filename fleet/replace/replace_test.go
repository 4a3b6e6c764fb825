package replace

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

const base = fleettest.Base

// repository is a fleet in memory.
type repository struct {
	t     *testing.T
	files map[string]string
}

func newRepository(t *testing.T, extra map[string]string) *repository {
	t.Helper()
	files := map[string]string{
		"sluice.yaml":     base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  traffic: {label: traffic}\n  layers: [region, cluster]\n  environments: [{name: dev}]\n",
		"clusters/a.yaml": base + "kind: Cluster\nmetadata: {name: a, labels: {region: eu, traffic: live}}\nspec: {environment: dev, vars: {ip: 10.0.0.1}}\n",
		"clusters/z.yaml": base + "kind: Cluster\nmetadata: {name: z, labels: {region: us, traffic: live}}\nspec: {environment: dev}\n",
		"apps/web/app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: m}}}\n",
		"apps/edge/app.yaml": base +
			"kind: App\nmetadata: {name: edge}\nspec: {namespace: edge, placement: {matchLabels: {traffic: live}}, source: {manifests: {path: m}}}\n",
		"m/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n",
	}
	maps.Copy(files, extra)
	maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
	return &repository{t, files}
}

func (r *repository) load(files map[string][]byte) (*fleet.Fleet, error) {
	all := maps.Clone(r.files)
	for name, data := range files {
		all[name] = string(data)
	}
	f, problems := fleet.Load(r.t.Context(), fleettest.NewTree(all), nil)
	if f == nil {
		return nil, problems
	}
	return f, nil
}

func (r *repository) write(step Step, old, new string, o Options) (*Change, error) {
	r.t.Helper()
	f, err := r.load(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return Write(f, Files{Read: func(name string) ([]byte, error) {
		if text, ok := r.files[name]; ok {
			return []byte(text), nil
		}
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}, Load: r.load}, step, old, new, o)
}

func (r *repository) commit(c *Change) {
	for name, data := range c.Files {
		r.files[name] = string(data)
	}
}

func (r *repository) phase(old, new string) Phase {
	r.t.Helper()
	f, err := r.load(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := PhaseOf(f, old, new)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// The steps lead from one phase to the next, and each file before is what a revert brings back.
func TestSteps(t *testing.T) {
	t.Parallel()
	const class = base + "kind: ClusterClass\nmetadata: {name: k}\nspec: {labels: {traffic: live}}\n"
	for name, c := range map[string]struct {
		fleet  string
		option Options
		steps  []Step
		phases []Phase
	}{
		"overlap":   {"  traffic: {label: traffic}\n", Options{}, []Step{Create, Give, Take, Freeze, Retire}, []Phase{Prepared, Shared, Moved, Frozen, Retired}},
		"exclusive": {"  traffic: {label: traffic, exclusive: true}\n", Options{}, []Step{Create, Take, Give, Freeze, Retire}, []Phase{Prepared, Drained, Moved, Frozen, Retired}},
		"other values": {
			"  traffic: {label: traffic, standby: \"off\", live: \"on\"}\n",
			Options{},
			[]Step{Create, Give, Take, Freeze, Retire},
			[]Phase{Prepared, Shared, Moved, Frozen, Retired},
		},
		"no traffic": {"", Options{NoTraffic: true}, []Step{Create, Freeze, Retire}, []Phase{Moved, Frozen, Retired}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t, map[string]string{"clusters/k.yaml": class})
			r.files["sluice.yaml"] = strings.Replace(r.files["sluice.yaml"], "  traffic: {label: traffic}\n", c.fleet, 1)
			for i, want := range c.steps {
				f, err := r.load(nil)
				if err != nil {
					t.Fatal(err)
				}
				before := r.phase("a", "b")
				if step := Next(f, before); step != want {
					t.Fatalf("after %s, the step is %q, want %q", before, step, want)
				}
				change, err := r.write(want, "a", "b", c.option)
				if err != nil {
					t.Fatalf("%s: %v", want, err)
				}
				if want != Create && len(change.Files) != 1 {
					t.Errorf("%s changes %d files", want, len(change.Files))
				}
				r.commit(change)
				if p := r.phase("a", "b"); p != c.phases[i] || !before.Before(p) {
					t.Errorf("%s leads from %s to %s, want %s", want, before, p, c.phases[i])
				}
			}
			f, _ := r.load(nil)
			if step := Next(f, Retired); step != Done {
				t.Errorf("after the end, the step is %q", step)
			}
			if was, is := strings.Join(appsOf(f, "b"), " "), "edge web"; was != is {
				t.Errorf("b has the apps %s, want %s", was, is)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	shared := newRepository(t, nil).files["clusters/a.yaml"]
	for name, c := range map[string]struct {
		extra map[string]string
		o     Options
		files map[string]string // parts of what is written
		notes []string
	}{
		"beside the old one": {
			nil,
			Options{},
			map[string]string{"clusters/b.yaml": "metadata: {name: b, labels: {region: eu, traffic: standby}}\nspec: {environment: dev, vars: {ip: 10.0.0.1}, replaces: a}\n"},
			[]string{"b does not get with this step: edge", "b has the variables of a (ip)"},
		},
		"a file of several documents": {
			map[string]string{"clusters/a.yaml": "", "clusters/all.yaml": "# all\n" + shared + "---\n# other\n" + strings.Replace(shared, "name: a", "name: other", 1)},
			Options{},
			map[string]string{"clusters/b.yaml": "# all\n" + base + "kind: Cluster\nmetadata: {name: b,"},
			nil,
		},
		"no other file": {
			map[string]string{"clusters/a.yaml": "", "all.yaml": shared, "sluice.yaml": base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  traffic: {label: traffic}\n  files: {clusters: [all.yaml, clusters/z.yaml]}\n  environments: [{name: dev}]\n"},
			Options{},
			map[string]string{"all.yaml": shared + "---\n" + base + "kind: Cluster\nmetadata: {name: b,"},
			nil,
		},
		"a file of its own": {nil, Options{File: "clusters/mine.yaml"}, map[string]string{"clusters/mine.yaml": "name: b"}, nil},
		"a folder of its own": {
			map[string]string{"clusters/a.yaml": "", "infra/a/cluster.yaml": shared, "sluice.yaml": base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  traffic: {label: traffic}\n  files: {clusters: [\"infra/*/cluster.yaml\", clusters/z.yaml]}\n  environments: [{name: dev}]\n"},
			Options{},
			map[string]string{"infra/b/cluster.yaml": "name: b"},
			nil,
		},
		"layers": {
			map[string]string{"layers/cluster/a/values.yaml": "x: a\n", "apps/web/layers/cluster/a/kustomization.yaml": "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1\n", "apps/edge/layers/cluster/a/values.yaml": "y: 1\n"},
			Options{},
			map[string]string{"layers/cluster/b/values.yaml": "x: a\n", "apps/web/layers/cluster/b/kustomization.yaml": "Component", "apps/edge/layers/cluster/b/values.yaml": "y: 1"},
			[]string{"layers/cluster/b/values.yaml is a copy and names a"},
		},
		"layers that are there": {map[string]string{"layers/cluster/a/values.yaml": "x: 1\n", "layers/cluster/b/values.yaml": "x: 2\n"}, Options{}, nil, []string{"layers/cluster/b exists and stays as it is"}},
		"path templates": {
			map[string]string{"vals/a/web.yaml": "x: 1\n", "sluice.yaml": base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  traffic: {label: traffic}\n  layers: [{name: cluster, values: [\"vals/${cluster.name}/${app}.yaml\"]}]\n  environments: [{name: dev}]\n"},
			Options{},
			map[string]string{"vals/b/web.yaml": "x: 1\n"},
			nil,
		},
		"sources": {
			map[string]string{"overlays/a/kustomization.yaml": "resources: [x.yaml]\n", "overlays/a/sub/x.yaml": "", "overlays/a/x.yaml": "kind: X\n", "overlays/z/kustomization.yaml": "{}", "apps/web/app.yaml": base + "kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {kustomize: {path: \"overlays/${cluster.name}\"}}}\n"},
			Options{},
			map[string]string{"overlays/b/kustomization.yaml": "resources", "overlays/b/x.yaml": "kind: X"},
			nil,
		},
		"selectors": {map[string]string{
			"apps/web/app.yaml": base + "kind: App\nmetadata: {name: web}\nspec:\n  namespace: web\n  placement: {matchExpressions: [{key: cluster, operator: In, values: [a, z]}]}\n  environments:\n    dev: {placement: {matchExpressions: [{key: region, operator: Exists}, {key: cluster, operator: NotIn, values: [a]}]}}\n  source: {manifests: {path: m}}\n",
			"sluice.yaml":       base + "kind: Fleet\nmetadata: {name: tiny}\nspec:\n  traffic: {label: traffic}\n  environments: [{name: dev, promotion: {waves: [{name: w, clusters: {matchExpressions: [{key: cluster, operator: In, values: [a]}]}}, {name: rest}]}}]\n",
		}, Options{}, map[string]string{"apps/web/app.yaml": "values: [a, z, b]", "sluice.yaml": "values: [a, b]"}, []string{"apps/web/app.yaml selects a by its name, and now b too"}},
		"workspaces and exemptions": {map[string]string{
			"workspaces/team.yaml":    base + "kind: Workspace\nmetadata: {name: team}\nspec:\n  path: teams/team\n  clusters: {matchExpressions: [{key: cluster, operator: In, values: [a]}]}\n  namespaces: [team-*]\n",
			"teams/team/apps/x.txt":   "",
			"policy/exemptions.yaml":  "kind: Exemption\nspec: {clusters: [a]}\n",
			"policy/lib/unrelated.go": "banana\n",
		}, Options{}, map[string]string{"workspaces/team.yaml": "values: [a, b]"}, []string{"policy/exemptions.yaml names a: add b"}},
		"a label that nothing selects by": {map[string]string{"apps/edge/app.yaml": ""}, Options{}, nil, []string{"no app and no layer selects by the label traffic"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t, c.extra)
			change, err := r.write(Create, "a", "b", c.o)
			if err != nil {
				t.Fatal(err)
			}
			for file, part := range c.files {
				if !strings.Contains(string(change.Files[file]), part) {
					t.Errorf("%s is %q, and lacks %q", file, change.Files[file], part)
				}
			}
			notes := strings.Join(change.Notes, "\n")
			for _, part := range c.notes {
				if !strings.Contains(notes, part) {
					t.Errorf("the notes are %q, and lack %q", notes, part)
				}
			}
			for file := range change.Files {
				_, existed := r.files[file]
				if existed == slices.Contains(change.Added, file) {
					t.Errorf("%s existed: %t, added: %v", file, existed, change.Added)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	in := func(file, text string) map[string]string { return map[string]string{file: text} }
	cluster := func(metadata, spec string) map[string]string {
		return in("clusters/a.yaml", base+"kind: Cluster\nmetadata: {name: a"+metadata+"}\nspec: {environment: dev"+spec+"}\n")
	}
	for name, c := range map[string]struct {
		extra    map[string]string
		step     Step
		old, new string
		want     string
	}{
		"unknown":             {nil, Create, "x", "b", "the fleet has no cluster x"},
		"the new one exists":  {nil, Create, "a", "z", "the cluster z exists in clusters/z.yaml"},
		"frozen":              {cluster(", labels: {traffic: live}", ", state: frozen"), Create, "a", "b", "the cluster a is not active"},
		"no traffic to move":  {cluster(", labels: {traffic: standby}", ""), Create, "a", "b", "a gets no traffic, because its label traffic is standby"},
		"no declared traffic": {in("sluice.yaml", base+"kind: Fleet\nmetadata: {name: tiny}\nspec: {environments: [{name: dev}]}\n"), Create, "a", "b", "sluice.yaml has no spec.traffic, so b would get everything at once"},
		"replaced by another": {in("clusters/c.yaml", base+"kind: Cluster\nmetadata: {name: c, labels: {traffic: standby}}\nspec: {environment: dev, replaces: a}\n"), Create, "a", "b", "the cluster c replaces a already"},
		"the file is taken":   {in("clusters/b.yaml", base+"kind: ClusterClass\nmetadata: {name: b}\nspec: {}\n"), Create, "a", "b", "clusters/b.yaml exists, and does not declare the cluster b"},
		"a selector of one":   {in("apps/web/app.yaml", base+"kind: App\nmetadata: {name: web}\nspec:\n  namespace: web\n  placement: {matchLabels: {cluster: a}}\n  source: {manifests: {path: m}}\n"), Create, "a", "b", "apps/web/app.yaml:6: the selector has matchLabels with cluster: a"},
		"labels of an anchor": {cluster(", labels: &l {traffic: live}", ""), Create, "a", "b", "clusters/a.yaml: 3:29: metadata.labels is an anchor"},
		"a missing version":   {map[string]string{"versions/a": "1", "versions/z": "1", "apps/web/app.yaml": base + "kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {helm: {chart: web, repo: \"https://example.com\", versionFrom: {file: \"versions/${cluster.name}\"}}}}\n"}, Create, "a", "b", "versions/b"},
		"a management cluster": {map[string]string{
			"clusters/w.yaml":        base + "kind: Cluster\nmetadata: {name: w, labels: {capi: aws, traffic: live}}\nspec: {environment: dev}\n",
			"apps/workload/app.yaml": base + "kind: App\nmetadata: {name: workload}\nspec:\n  namespace: clusters\n  placement: {matchLabels: {region: eu}}\n  forEach: {clusters: {matchLabels: {capi: aws}}}\n  source: {manifests: {path: m}}\n",
		}, Create, "a", "b", "the app workload on a describes the cluster w: on b too, two management clusters would manage it"},
		"retired at once":       {in("clusters/b.yaml", base+"kind: Cluster\nmetadata: {name: b, labels: {traffic: standby}}\nspec: {environment: dev, replaces: a}\n"), Retire, "a", "b", "gets no traffic"},
		"a step that is behind": {in("clusters/b.yaml", base+"kind: Cluster\nmetadata: {name: b, labels: {traffic: live}}\nspec: {environment: dev, replaces: a}\n"), Give, "a", "b", "does not bring the replacement further than shared"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change, err := newRepository(t, c.extra).write(c.step, c.old, c.new, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the change is %v and the error %v, want %q", change, err, c.want)
			}
		})
	}
}

// Declarations that contradict the steps are errors, and not a phase.
func TestContradictions(t *testing.T) {
	t.Parallel()
	b := func(traffic, spec string) string {
		return base + "kind: Cluster\nmetadata: {name: b, labels: {traffic: " + traffic + "}}\nspec: {environment: dev, replaces: a" + spec + "}\n"
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"frozen too early":       {"state: frozen", b("standby", ""), "a is frozen, but the traffic has not moved to b"},
		"frozen with it":         {"state: frozen", b("live", ""), "a is frozen, but the traffic has not moved to b"},
		"the new one is retired": {"state: active", b("live", ", state: retired"), "b is retired, so it cannot take the place of a"},
	} {
		r := newRepository(t, map[string]string{"clusters/b.yaml": c.new})
		r.files["clusters/a.yaml"] = strings.Replace(r.files["clusters/a.yaml"], "environment: dev", "environment: dev, "+c.old, 1)
		f, err := r.load(nil)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := PhaseOf(f, "a", "b"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the phase is %q and the error %v, want %q", name, p, err, c.want)
		}
	}
	r := newRepository(t, map[string]string{"clusters/b.yaml": b("live", ""), "clusters/a.yaml": ""})
	if p := r.phase("a", "b"); p != Retired {
		t.Errorf("without the old cluster, the phase is %s", p)
	}
}

func TestDetach(t *testing.T) {
	t.Parallel()
	r := newRepository(t, nil)
	f, err := r.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	files := Files{Read: func(name string) ([]byte, error) { return []byte(r.files[name]), nil }, Load: r.load}
	change, err := Detach(f, files, "a")
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := change.Fleet.Cluster("a"); !a.Detached || !strings.Contains(string(change.Files["clusters/a.yaml"]), "state: detached") {
		t.Errorf("the file is %s", change.Files["clusters/a.yaml"])
	}
	files.Load = func(map[string][]byte) (*fleet.Fleet, error) { return nil, errors.New("no") }
	if _, err := Detach(f, files, "a"); err == nil {
		t.Error("a fleet that cannot be read is no error")
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"a": true, "host: a.example.com": false, "host: x-a": false, "name: a\n": true, "aa a": true, "": false, "ab": false, "[a]": true, "a-a aaa": false,
	} {
		if got := mentions([]byte(text), "a"); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
