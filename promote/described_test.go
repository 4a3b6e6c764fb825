package promote_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// management is a fleet whose management cluster describes twelve clusters of three environments.
type management struct {
	*stage
	red   map[string]bool // apps with red statuses on the management cluster
	order string          // of an upgrade
	forge promote.MergeRequests
}

const kind = "apiVersion: sluice.dev/v1alpha1\nkind: "

// Statuses implements promote.Statuses: each app on the management cluster has the status that Flux would post.
func (m *management) Statuses(_ context.Context, commit string) ([]rollout.Status, error) {
	var out []rollout.Status
	for app := range strings.Lines(m.Git("ls-tree", "--name-only", commit)) { //nolint:contextcheck // the repository has the test's
		app = strings.TrimSpace(app)
		state := "success"
		if m.red[app] && strings.Contains(m.Git("grep", "-h", "version:", commit, "--", app), "1.36.1") {
			state = "failure"
		}
		out = append(out, rollout.Status{Name: "kustomization/" + app + "/1", State: state})
	}
	return out, nil
}

func newManagement(t *testing.T, promotion string) *management {
	t.Helper()
	m := &management{&stage{hydratetest.New(t), &outsider{red: map[string]bool{}}, time.Now()}, map[string]bool{}, "", nil}
	m.out.repo = m.Repo
	m.Write("sluice.yaml", kind+`Fleet
metadata: {name: acme}
spec:
  trunk: main
  layers: [cluster]
  environments:
    - name: dev
    - {name: staging, after: [dev], promotion: {mode: auto}}
    - name: prod
      after: [dev]
      promotion:
        mode: auto
        settle: 10m
        waves:
          - {name: canary, clusters: {matchLabels: {ring: "1"}}, bake: 1h}
          - {name: half, clusters: {matchLabels: {ring: "2"}}, maxParallel: 2, bake: 4h}
          - {name: rest}
    - {name: mgmt, after: [dev], promotion: {`+promotion+`}}
`)
	for environment, count := range map[string]int{"dev": 2, "staging": 2, "prod": 8} {
		for i := range count {
			ring := 1 + min(i/2, 2)
			if i == 4 {
				ring = 2
			}
			m.Write(fmt.Sprintf("clusters/%s-%d.yaml", environment, i+1), fmt.Sprintf(
				"%sCluster\nmetadata: {name: %s-%d, labels: {capi: \"yes\", ring: \"%d\"}}\nspec: {environment: %[2]s, class: standard}\n",
				kind, environment, i+1, ring))
		}
	}
	m.Write("clusters/m.yaml", kind+"Cluster\nmetadata: {name: m, labels: {role: management}}\nspec: {environment: mgmt}\n")
	m.Write("apps/workload/app.yaml", kind+`App
metadata: {name: workload}
spec:
  namespace: clusters
  placement: {matchLabels: {role: management}}
  forEach: {clusters: {matchLabels: {capi: "yes"}}}
  source: {helm: {path: apps/workload/chart}}
`)
	m.Write("apps/workload/chart/Chart.yaml", "apiVersion: v2\nname: workload\nversion: 1.0.0\n")
	m.Write("apps/workload/chart/templates/c.yaml", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: \"{{ .Values.name }}\"}\nspec: {topology: {classRef: {name: standard}, version: \"{{ .Values.version }}\"}}\n")
	m.Write("apps/workload/layers/global/values.yaml", "name: ${each.name}\nversion: v${each.kubeVersion}\n")
	m.Write("apps/tools/app.yaml", kind+"App\nmetadata: {name: tools}\nspec: {namespace: tools, placement: {matchLabels: {role: management}}, source: {manifests: {path: apps/tools/m}}}\n")
	m.tools("one")
	m.version("1.35.2")
	m.pass(t)
	return m
}

func (m *management) tools(text string) {
	m.Write("apps/tools/m/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tools}\ndata: {text: "+text+"}\n")
}

// version gives all described clusters a version.
func (m *management) version(v string) {
	m.Write("clusters/class.yaml", kind+"ClusterClass\nmetadata: {name: standard}\nspec: {kubeVersion: "+v+", upgradeOrder: ["+m.order+"]}\n")
	m.Commit("Kubernetes " + v)
	m.hydrateThe("dev")
}

// pass looks at promotions until nothing moves, and returns the state of mgmt.
func (m *management) pass(t *testing.T, commands ...promote.Command) promote.Status {
	t.Helper()
	c := m.tip()
	r := promote.Request{Trunk: c, Commands: commands, Now: m.now, Adapters: m.adapters()}
	r.Adapters.Statuses, r.Adapters.MergeRequests = m, m.forge
	var mgmt promote.Status
	for range 20 {
		list, err := promote.Look(t.Context(), m.Hydrator(2), r)
		if err != nil {
			t.Fatal(err)
		}
		moved := false
		for _, e := range list {
			if len(e.Refused) > 0 {
				t.Fatal(e.Refused)
			}
			moved = moved || len(e.Done) > 0
			if e.Environment == "mgmt" {
				mgmt = e
			}
		}
		if r.Commands = nil; !moved {
			break
		}
	}
	m.now = m.now.Add(time.Minute)
	return mgmt
}

// versions lists the described clusters that have a version on the branch of the management cluster.
func (m *management) versions(v string) string {
	var out []string
	for line := range strings.Lines(m.Git("grep", "version: v", "cluster/m")) {
		if !strings.HasSuffix(strings.TrimSpace(line), "version: v"+v) {
			continue
		}
		_, file, _ := strings.Cut(line, ":workload.")
		name, _, _ := strings.Cut(file, "/")
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func wantVersions(t *testing.T, m *management, v, want string) {
	t.Helper()
	if got := m.versions(v); got != want {
		t.Errorf("version %s: %s, want %s", v, got, want)
	}
}

// TestDescribedWaves upgrades twelve described clusters: environment by environment, wave by wave. A red canary stops
// the others.
func TestDescribedWaves(t *testing.T) {
	t.Parallel()
	m := newManagement(t, `mode: auto, health: {commitStatuses: ["kustomization/${app}/*"]}`)
	m.tools("two")
	m.version("1.36.1")
	last := m.pass(t)
	const early = "dev-1 dev-2 prod-1 prod-2 staging-1 staging-2"
	wantVersions(t, m, "1.36.1", early)
	wants(t, "waits", []string{last.Decision.WaitsFor}, "described/prod/half 1 of 2: prod/canary bakes until")
	if !strings.Contains(m.Git("show", "cluster/m:tools/configmap-tools.yaml"), "two") {
		t.Error("what describes no cluster waits for those that do")
	}

	// the canary fails while it bakes: nothing follows, for however long
	m.red["workload.prod-2"] = true
	m.now = m.now.Add(2 * time.Hour)
	last = m.pass(t)
	wants(t, "red canary", []string{last.Decision.WaitsFor}, "described/prod/half 1 of 2: red: health: 0 of 1 clusters are healthy")
	wantVersions(t, m, "1.36.1", early)
	m.red = map[string]bool{}

	// the next step moves, and turns red while it moves: mgmt halts
	m.red["workload.prod-4"] = true
	last = m.pass(t)
	wantVersions(t, m, "1.36.1", "dev-1 dev-2 prod-1 prod-2 prod-3 prod-4 staging-1 staging-2")
	wants(t, "halt", []string{last.Decision.WaitsFor}, "mgmt is halted")
	m.now = m.now.Add(9 * time.Hour)
	m.red = map[string]bool{}
	m.pass(t)
	wantVersions(t, m, "1.35.2", "prod-5 prod-6 prod-7 prod-8")

	// a person continues: the second step of half comes after the pause, and then the rest after four hours
	resume := ordered(rollout.EventResume, "r", nil)
	resume.Environment = "mgmt"
	last = m.pass(t, resume)
	wants(t, "settle", []string{last.Decision.WaitsFor}, "prod/half 1 of 2 bakes until")
	m.now = m.now.Add(11 * time.Minute)
	last = m.pass(t)
	wantVersions(t, m, "1.35.2", "prod-6 prod-7 prod-8")
	wants(t, "half", []string{last.Decision.WaitsFor}, "described/prod/rest: prod/half 2 of 2 bakes until")
	m.now = m.now.Add(5 * time.Hour)
	m.pass(t)
	if got := m.Git("grep", "-c", "version: v1.36.1", "cluster/m"); strings.Count(got, "\n")+1 != 12 {
		t.Errorf("not all clusters are upgraded: %s", got)
	}
	if log := m.Git("log", "--format=%s", "env/mgmt"); strings.Count(log, "\n") != 6 {
		t.Errorf("the moves are\n%s", log)
	}
	if text := m.Git("show", "env/mgmt:.sluice/environment.yaml"); strings.Contains(text, "apps") {
		t.Errorf("in the end, all apps have one commit: %s", text)
	}
}

// TestDescribedClosed: what keeps clusters as they are keeps the objects that describe them, too.
func TestDescribedClosed(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	frozen := ordered(rollout.EventFreeze, "f", func(c *promote.Command) { c.Target, c.Until = "prod-2", m.now.Add(8*time.Hour) })
	m.pass(t, frozen)
	halted := ordered(rollout.EventHalt, "h", nil)
	m.pass(t, halted)
	m.version("1.36.1")
	last := m.pass(t)
	wantVersions(t, m, "1.36.1", "dev-1 dev-2 staging-1 staging-2")
	wants(t, "halt of prod", []string{last.Decision.WaitsFor}, "described/prod: red: prod: halted by mia")
	resume := ordered(rollout.EventResume, "r", nil)
	m.pass(t, resume)
	wantVersions(t, m, "1.36.1", "dev-1 dev-2 prod-1 staging-1 staging-2")
	for range 4 {
		m.now = m.now.Add(30 * time.Minute)
		m.pass(t)
	}
	m.now = m.now.Add(4 * time.Hour)
	last = m.pass(t)
	wantVersions(t, m, "1.35.2", "prod-2")
	if last.Decision.Proposal != nil || len(last.Decision.Gates) != 1 || !strings.Contains(last.Decision.Gates[0].Reason, "workload.prod-2") {
		t.Errorf("only the frozen cluster is left: %+v", last.Decision)
	}
	m.now = m.now.Add(4 * time.Hour)
	m.pass(t)
	wantVersions(t, m, "1.36.1", "dev-1 dev-2 prod-1 prod-2 prod-3 prod-4 prod-5 prod-6 prod-7 prod-8 staging-1 staging-2")
}

// TestDescribedByCommand: one command brings all waves; --now brings them at once; a rolled back cluster stays; one that
// is gone comes last in its environment.
func TestDescribedByCommand(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: manual, settle: 0s")
	mgmt := func(kind rollout.EventKind, id string, change func(*promote.Command)) promote.Command {
		c := ordered(kind, id, change)
		c.Environment = "mgmt"
		return c
	}
	m.pass(t, mgmt(rollout.EventPromote, "first", nil))
	m.Git("rm", "-q", "clusters/dev-1.yaml")
	m.version("1.36.1")
	m.pass(t, mgmt(rollout.EventPromote, "p", nil))
	wantVersions(t, m, "1.36.1", "dev-2 prod-1 prod-2 staging-1 staging-2")
	wantVersions(t, m, "1.35.2", "prod-3 prod-4 prod-5 prod-6 prod-7 prod-8")
	m.pass(t, mgmt(rollout.EventRollback, "b", func(c *promote.Command) { c.Apps = []string{"workload.prod-1"} }))
	wantVersions(t, m, "1.35.2", "prod-1 prod-3 prod-4 prod-5 prod-6 prod-7 prod-8")
	m.pass(t, ordered(rollout.EventHalt, "h", nil), ordered(rollout.EventFreeze, "f", func(c *promote.Command) { c.Target, c.Until = "prod-8", m.now.Add(9*time.Hour) }))
	last := m.pass(t, mgmt(rollout.EventPromote, "n", func(c *promote.Command) { c.Now, c.Again = true, "it was not this" }))
	wants(t, "--now and a halt", []string{last.Decision.WaitsFor}, "described/prod: red: prod: halted by mia")
	m.pass(t, ordered(rollout.EventResume, "r", nil))
	wantVersions(t, m, "1.36.1", "dev-2 prod-1 prod-2 prod-3 prod-4 prod-5 prod-6 prod-7 staging-1 staging-2")
	if list := m.Git("ls-tree", "--name-only", "cluster/m"); strings.Contains(list, "dev-1") {
		t.Errorf("dev-1 is gone, and the branch has %s", list)
	}
}

// TestUpgradeOrder: the objects of one cluster move in the order that its class declares, each step after the one before
// is healthy.
func TestUpgradeOrder(t *testing.T) {
	t.Parallel()
	m := newManagement(t, `mode: auto, settle: 0s, health: {commitStatuses: ["kustomization/${app}/*"]}`)
	for _, name := range []string{"addons", "nodes"} {
		app := strings.ReplaceAll(m.Read("apps/workload/app.yaml"), "name: workload", "name: "+name)
		m.Write("apps/"+name+"/app.yaml", strings.Replace(app, "{path: apps/workload/chart}", "{path: apps/workload/chart, releaseName: \"${each.name}\"}", 1))
		m.Write("apps/"+name+"/layers/global/values.yaml", "name: ${each.name}-"+name+"\nversion: v${each.kubeVersion}\n")
	}
	m.order = "addons, workload, nodes"
	m.version("1.35.3")
	for range 60 {
		m.now = m.now.Add(time.Hour)
		m.pass(t)
	}
	m.red["workload.dev-2"] = true
	m.version("1.36.1")
	last := m.pass(t)
	for app, want := range map[string]string{"addons": "1.36.1", "workload": "1.36.1", "nodes": "1.35.3"} {
		if got := m.Git("grep", "-h", "version:", "cluster/m", "--", app+".dev-2"); !strings.Contains(got, want) {
			t.Errorf("%s has %s, want %s", app, got, want)
		}
	}
	wants(t, "control plane", []string{last.Decision.WaitsFor}, "mgmt is halted")
	m.red = map[string]bool{}
	resume := ordered(rollout.EventResume, "r", nil)
	resume.Environment = "mgmt"
	m.pass(t, resume)
	if got := m.Git("grep", "-h", "version:", "cluster/m", "--", "nodes.dev-2"); !strings.Contains(got, "1.36.1") {
		t.Errorf("the nodes do not follow: %s", got)
	}
	log, before := strings.Fields(m.Git("rev-list", "--reverse", "env/mgmt")), -1
	for _, app := range []string{"addons", "workload", "nodes"} {
		at := slices.Index(log, m.Git("rev-list", "-1", "env/mgmt", "--", "m/"+app+".dev-1"))
		if at <= before {
			t.Errorf("%s of dev-1 moved in commit %d, the step before in %d", app, at, before)
		}
		before = at
	}
}

// TestDescribedMinors: two minor versions that are both on the trunk come in two rounds through all waves, by
// themselves. A commit that changes two at once comes to nobody, and the message names the version in between.
func TestDescribedMinors(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	m.version("1.36.1")
	m.tools("two") // the newest commit with 1.36
	m.Commit("two")
	between := m.Git("rev-parse", "main")
	m.tools("three")
	m.version("1.37.0")
	last := m.pass(t)
	gates := fmt.Sprint(last.Decision.Gates)
	wants(t, "first round", []string{gates}, fmt.Sprintf(
		"Kubernetes skips no minor version, so %.10s comes before %.10s: it upgrades prod-3 from 1.35.2 to 1.36.1", between, m.Git("rev-parse", "main")))
	wantVersions(t, m, "1.36.1", firstWaves)
	if !strings.Contains(m.Git("show", "cluster/m:tools/configmap-tools.yaml"), "three") {
		t.Error("what describes no cluster waits for the second round")
	}
	last = m.hours(t, 3, 10*time.Minute)
	wantVersions(t, m, "1.36.1", firstWaves)
	wants(t, "no second round yet", []string{last.Decision.WaitsFor}, "prod/canary bakes")
	seen := map[string]bool{}
	for range 40 {
		m.hours(t, 1, 30*time.Minute)
		old, middle, newest := m.versions("1.35.2"), m.versions("1.36.1"), m.versions("1.37.0")
		seen[old+"|"+middle+"|"+newest] = true
		if old != "" && newest != "" {
			t.Fatalf("the second round begins before the first one is over: 1.35 has %s, 1.37 has %s", old, newest)
		}
	}
	wantVersions(t, m, "1.37.0", allDescribed)
	if !seen["||"+allDescribed] || len(seen) < 6 {
		t.Errorf("the states are %v", seen)
	}
	if text := m.Git("show", "env/mgmt:.sluice/environment.yaml"); strings.Contains(text, "apps") {
		t.Errorf("in the end, all apps have one commit: %s", text)
	}

	m.version("1.39.0")
	last = m.pass(t)
	wants(t, "two at once", []string{last.Decision.WaitsFor}, "and Kubernetes skips no minor version: promote a commit with kubeVersion 1.38 first")
	wants(t, "who", []string{last.Decision.WaitsFor}, "dev-1 from 1.37.0 to 1.39.0, dev-2 from 1.37.0 to 1.39.0, prod-1 from 1.37.0 to 1.39.0")
	wantVersions(t, m, "1.37.0", allDescribed)
}

// TestDescribedRoundsByCommand: one command brings both rounds. A red canary of the second one stops it, and a commit
// that corrects it brings all clusters to the end.
func TestDescribedRoundsByCommand(t *testing.T) {
	t.Parallel()
	m := newManagement(t, strings.Replace(withStatuses, "auto", "manual", 1))
	m.pass(t, toMgmt(rollout.EventPromote, "first", nil))
	m.version("1.36.0")
	m.version("1.37.0")
	m.pass(t, toMgmt(rollout.EventPromote, "p", nil))
	wantVersions(t, m, "1.36.0", firstWaves)
	for i := 0; m.versions("1.37.0") == ""; i++ {
		if m.hours(t, 1, 90*time.Minute); i > 20 {
			t.Fatal("no second round")
		}
	}
	wantVersions(t, m, "1.37.0", firstWaves)
	wantVersions(t, m, "1.36.0", "prod-3 prod-4 prod-5 prod-6 prod-7 prod-8")
	m.hours(t, 12, 90*time.Minute)
	wantVersions(t, m, "1.37.0", allDescribed)
	if last := m.pass(t); last.Decision.Record.Request != nil {
		t.Error("the request is still open")
	}
}

// TestHandsOnWork: a command counts once, whatever number of waves it brings, and each command counts.
func TestHandsOnWork(t *testing.T) {
	t.Parallel()
	m := newManagement(t, strings.Replace(withStatuses, "auto", "manual", 1))
	m.pass(t, toMgmt(rollout.EventPromote, "first", nil))
	before := -1
	for i, c := range []struct {
		version  string
		app      string
		clusters string
	}{{"1.36.0", "workload.dev-1", "dev-1"}, {"1.36.1", "workload.dev-1", "dev-1"}, {"1.36.2", "", allDescribed}} {
		m.version(c.version)
		m.pass(t, toMgmt(rollout.EventPromote, fmt.Sprint("p", i), func(o *promote.Command) {
			if c.app != "" {
				o.Apps = []string{c.app}
			}
		}))
		m.hours(t, 8, 5*time.Hour)
		wantVersions(t, m, c.version, c.clusters)
		found, err := promote.Versions(t.Context(), m.Hydrator(2), m.tip(), nil, m.now, nil)
		if err != nil {
			t.Fatal(err)
		}
		u := found.Upgrades[0]
		if before < 0 { // the first state may be as old as the commit
			before = u.Commands - 1
		}
		if u.Commands-before != i+1 || u.Approvals != 0 {
			t.Errorf("after %s: %s, want %d commands", c.version, u.ToilText(), before+i+1)
		}
	}
}

// TestProgressOfRounds: an upgrade is not done while clusters have yet to come through it to a newer version.
func TestProgressOfRounds(t *testing.T) {
	t.Parallel()
	m := newManagement(t, withStatuses)
	m.pass(t)
	m.version("1.36.0")
	m.version("1.37.0")
	m.pass(t) // the canary of prod bakes
	found, err := promote.Versions(t.Context(), m.Hydrator(2), m.tip(), nil, m.now, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range found.Upgrades {
		got = append(got, fmt.Sprintf("%s %d of %d, done %t", u.Minor, u.Reached, u.Total, !u.Done.IsZero()))
	}
	if want := []string{"1.37 0 of 12, done false", "1.36 6 of 12, done false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDescribedRoundsByName: a cluster that somebody names waits for the round of all; --now takes it through both, one
// after the other.
func TestDescribedRoundsByName(t *testing.T) {
	t.Parallel()
	m := newManagement(t, strings.Replace(withStatuses, "auto", "manual", 1))
	m.pass(t, toMgmt(rollout.EventPromote, "first", nil))
	m.version("1.36.0")
	m.version("1.37.0")
	m.pass(t, toMgmt(rollout.EventPromote, "p", func(c *promote.Command) { c.Apps = []string{"workload.dev-1"} }))
	wantVersions(t, m, "1.36.0", "dev-1")
	tip := m.Git("rev-parse", "env/mgmt")
	last := m.hours(t, 2, time.Hour)
	if got := m.Git("rev-parse", "env/mgmt"); got != tip {
		t.Errorf("nothing changes, and env/mgmt moves:\n%s", m.Git("log", "--format=%s", "env/mgmt"))
	}
	wants(t, "waits", []string{last.Decision.WaitsFor}, "the next round brings it, when all clusters have ")
	m.red["workload.prod-7"] = true // with 1.36.1 only
	m.pass(t, toMgmt(rollout.EventPromote, "n", func(c *promote.Command) { c.Apps, c.Now = []string{"workload.prod-7"}, true }))
	wantVersions(t, m, "1.37.0", "prod-7")
	wantVersions(t, m, "1.36.0", "dev-1")
	if log := m.Git("log", "--format=%s", "-p", "env/mgmt", "--", "m/workload.prod-7"); strings.Count(log, "+    version: v") != 3 {
		t.Errorf("prod-7 skips a minor version:\n%s", log)
	}
}

// TestDescribedRoundsNow: not even --now begins an upgrade to another minor version while the one before goes on.
func TestDescribedRoundsNow(t *testing.T) {
	t.Parallel()
	m := newManagement(t, withStatuses)
	m.red["workload.prod-7"] = true
	m.version("1.36.1")
	m.version("1.37.0")
	last := m.pass(t, toMgmt(rollout.EventPromote, "n", func(c *promote.Command) { c.Now = true }))
	wantVersions(t, m, "1.36.1", allDescribed)
	wants(t, "waits", []string{fmt.Sprint(last.Decision.Gates)}, "is being upgraded: another minor version comes when that is complete")
	m.hours(t, 2, 5*time.Hour)
	wantVersions(t, m, "1.36.1", allDescribed)
	m.red["workload.prod-7"] = false
	m.hours(t, 2, time.Minute)
	wantVersions(t, m, "1.37.0", allDescribed)
}

// TestDescribedCorrection: a canary that turned red while it moved gets a correction by name, although mgmt is halted and
// the canary is still red. The others get it wave by wave.
func TestDescribedCorrection(t *testing.T) {
	t.Parallel()
	m := newManagement(t, withStatuses)
	m.red["workload.prod-1"] = true
	m.version("1.36.1")
	last := m.pass(t)
	wants(t, "halt", []string{last.Decision.WaitsFor}, "mgmt is halted: `/sluice resume mgmt` continues it when it is healthy again; `/sluice promote mgmt --app APP --now --reason WHY` brings a newer commit that corrects an app")
	m.version("1.36.2")
	m.pass(t, toMgmt(rollout.EventResume, "r", nil))
	if last := m.hours(t, 1, time.Hour); last.Decision.Record.Halt == nil {
		t.Error("a red canary does not halt mgmt again")
	}
	wantVersions(t, m, "1.36.2", "")
	m.pass(t, toMgmt(rollout.EventPromote, "fix", func(c *promote.Command) { c.Now, c.Apps = true, []string{"workload.prod-1"} }))
	wantVersions(t, m, "1.36.2", firstWaves)
	m.hours(t, 8, 90*time.Minute)
	wantVersions(t, m, "1.36.2", allDescribed)
	if log := m.Git("log", "--reverse", "--format=%s", "-S1.36.2", "env/mgmt", "--", "m/workload.prod-1"); !strings.Contains(log, "workload.prod-1") {
		t.Errorf("the canary does not come first: %s", log)
	}
}

// TestDescribedRoundStays: a round brings no frozen cluster, no cluster to an older version, and nothing of a commit that
// does not describe the cluster: its objects would go.
func TestDescribedRoundStays(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	m.pass(t, ordered(rollout.EventFreeze, "f", func(c *promote.Command) { c.Target, c.Until = "prod-2", m.now.Add(900*time.Hour) }))
	selected, older := m.Read("clusters/dev-1.yaml"), m.Read("clusters/dev-2.yaml")
	m.Write("clusters/dev-1.yaml", strings.Replace(selected, `capi: "yes"`, `capi: "no"`, 1))
	m.Write("clusters/dev-2.yaml", strings.Replace(older, "environment: dev", "environment: dev, kubeVersion: 1.34.0", 1))
	m.version("1.36.1")
	m.Write("clusters/dev-1.yaml", selected)
	m.Write("clusters/dev-2.yaml", older)
	m.version("1.37.0")
	m.pass(t)
	wantVersions(t, m, "1.36.1", "prod-1 staging-1 staging-2")
	last := m.hours(t, 30, 2*time.Hour)
	wantVersions(t, m, "1.35.2", "dev-1 dev-2 prod-2")
	wantVersions(t, m, "1.37.0", "prod-1 prod-3 prod-4 prod-5 prod-6 prod-7 prod-8 staging-1 staging-2")
	wants(t, "what is left", []string{last.Decision.WaitsFor}, "workload.dev-1, workload.dev-2, workload.prod-2, which is held back; it would upgrade dev-1 from 1.35.2 to 1.37.0, dev-2 from 1.35.2 to 1.37.0, prod-2 from 1.35.2 to 1.37.0, and Kubernetes skips no minor version: promote a commit with kubeVersion 1.36 first")
}

// TestVersions: a described cluster has the version of its objects, another one that of its declaration, and a cluster is
// behind since the first commit that wants more than it runs.
func TestVersions(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	m.Write("clusters/m.yaml", kind+"Cluster\nmetadata: {name: m, labels: {role: management}}\nspec: {environment: mgmt, kubeVersion: 1.36.0}\n")
	m.version("1.36.1")
	first := m.tip()
	m.tools("two")
	m.version("1.36.2")
	m.pass(t)
	statuses, err := promote.Look(t.Context(), m.Hydrator(2), promote.Request{Trunk: m.tip(), Now: m.now, DryRun: true, Adapters: m.adapters()})
	if err != nil {
		t.Fatal(err)
	}
	found, err := promote.Versions(t.Context(), m.Hydrator(2), m.tip(), statuses, m.now, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]promote.ClusterVersion{}
	for _, v := range found.Clusters {
		got[v.Cluster] = v
	}
	if v := got["prod-3"]; len(got) != 13 || v.Runs != "1.35.2" || v.Wants != "1.36.2" || !v.Behind() || !v.Since.Equal(first.Committer.When) {
		t.Errorf("%d clusters, prod-3 is %+v, want since %s", len(got), v, first.Committer.When)
	}
	if v := got["prod-1"]; v.Runs != "1.36.2" || v.Behind() || !v.Since.IsZero() {
		t.Errorf("prod-1 is %+v", v)
	}
	if v := got["m"]; v.Runs != "1.36.0" || v.Wants != "1.36.0" || v.Behind() {
		t.Errorf("m is %+v", v)
	}
	var text strings.Builder
	if err := promote.WriteVersions(&text, found, first.Committer.When.Add(50*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "1.35        0    0        6     0") || !strings.Contains(text.String(), "(2 days)") {
		t.Errorf("the text is\n%s", text.String())
	}
}

// TestDescribedRequests: in mode request, each wave is a merge request.
func TestDescribedRequests(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: manual, settle: 0s")
	first := ordered(rollout.EventPromote, "first", nil)
	first.Environment = "mgmt"
	m.pass(t, first)
	m.Write("sluice.yaml", strings.Replace(m.Read("sluice.yaml"), "mode: manual, settle: 0s", "mode: request", 1))
	m.version("1.36.1")
	forge := &requests{}
	m.forge = forge
	for _, want := range []string{"dev-1 dev-2", "dev-1 dev-2 staging-1 staging-2", "dev-1 dev-2 prod-1 prod-2 staging-1 staging-2"} {
		m.pass(t)
		if forge.open == nil {
			t.Fatalf("no merge request for %s", want)
		}
		m.Git("update-ref", "refs/heads/env/mgmt", "refs/heads/sluice/promote/mgmt") // it is merged
		forge.open = nil
		m.pass(t)
		m.now = m.now.Add(10 * time.Minute)
		wantVersions(t, m, "1.36.1", want)
	}
}

// mg is a command for the environment mgmt.
func mg(kind rollout.EventKind, id string, change func(*promote.Command)) promote.Command {
	c := ordered(kind, id, change)
	c.Environment = "mgmt"
	return c
}

// An approval that was written for a wave does not count for the next one, although both are of one request.
func TestLateApprovalOfAnEarlierWave(t *testing.T) {
	t.Parallel()
	m := newManagement(t, `mode: manual, settle: 0s, approvers: {count: 1, users: [mia, noor]}`)
	m.pass(t, mg(rollout.EventPromote, "p0", nil))
	m.pass(t, mg(rollout.EventApprove, "a0", nil))
	m.version("1.36.1")
	m.now = m.now.Add(time.Minute)
	m.pass(t, mg(rollout.EventPromote, "p", func(c *promote.Command) { c.Said, c.By = m.now, "lee" }))
	said := m.now
	m.now = m.now.Add(time.Minute)
	look := func(commands ...promote.Command) (refused []string) {
		list, err := promote.Look(t.Context(), m.Hydrator(2), promote.Request{Trunk: m.tip(), Now: m.now, Adapters: m.adapters(), Commands: commands})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			refused = append(refused, e.Refused...)
		}
		m.now = m.now.Add(10 * time.Second)
		return refused
	}
	if refused := look(mg(rollout.EventApprove, "a1", func(c *promote.Command) { c.Said = said })); len(refused) > 0 {
		t.Fatal(refused) // of the first wave
	}
	for range 2 { // the cluster moves, and the next wave is offered
		look()
	}
	refused := look(mg(rollout.EventApprove, "a2", func(c *promote.Command) { c.By, c.Said = "noor", said }))
	wants(t, "refused", refused, "came after this was said")
}
