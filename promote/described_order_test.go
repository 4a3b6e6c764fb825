package promote_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

const (
	withStatuses = `mode: auto, settle: 0s, health: {commitStatuses: ["kustomization/${app}/*"]}`
	firstWaves   = "dev-1 dev-2 prod-1 prod-2 staging-1 staging-2"
	allDescribed = "dev-1 dev-2 prod-1 prod-2 prod-3 prod-4 prod-5 prod-6 prod-7 prod-8 staging-1 staging-2"
)

// toMgmt is a command about the environment of the management cluster.
func toMgmt(kind rollout.EventKind, id string, change func(*promote.Command)) promote.Command {
	c := ordered(kind, id, change)
	c.Environment = "mgmt"
	return c
}

// hours passes times, one pass in each step.
func (m *management) hours(t *testing.T, steps int, each time.Duration) promote.Status {
	t.Helper()
	var last promote.Status
	for range steps {
		m.now = m.now.Add(each)
		last = m.pass(t)
	}
	return last
}

// TestDescribedTakenBack: what was taken back in a wave comes to no later one, however much time or however many other
// commits pass.
func TestDescribedTakenBack(t *testing.T) {
	t.Parallel()
	t.Run("by a person", func(t *testing.T) {
		t.Parallel()
		m := newManagement(t, withStatuses)
		m.version("1.36.1")
		m.pass(t)
		wantVersions(t, m, "1.36.1", firstWaves)
		m.pass(t, toMgmt(rollout.EventRollback, "b", func(c *promote.Command) { c.Apps = []string{"workload.prod-1"} }))
		last := m.hours(t, 3, 2*time.Hour)
		wantVersions(t, m, "1.36.1", "dev-1 dev-2 prod-2 staging-1 staging-2")
		wants(t, "waits", []string{last.Decision.WaitsFor}, "described/prod/half 1 of 2: red: prod/canary comes first, and workload.prod-1 on all of mgmt is held back:")
		wants(t, "ends", []string{last.Decision.WaitsFor}, "`/sluice resume mgmt --hold workload.prod-1`")
		m.pass(t, toMgmt(rollout.EventResume, "r", func(c *promote.Command) { c.Named = []string{"workload.prod-1"} }))
		m.hours(t, 6, 3*time.Hour)
		wantVersions(t, m, "1.36.1", allDescribed)
	})
	t.Run("by Sluice", func(t *testing.T) {
		t.Parallel()
		m := newManagement(t, withStatuses+", onFailure: rollback")
		m.red["workload.dev-2"] = true
		m.version("1.36.1")
		m.pass(t)
		m.tools("unrelated")
		m.Commit("unrelated")
		m.hydrateThe("dev")
		last := m.hours(t, 3, 2*time.Hour)
		wantVersions(t, m, "1.35.2", allDescribed)
		wants(t, "waits", []string{last.Decision.WaitsFor}, "described/staging/all: red: dev/all comes first")
		m.red["workload.dev-2"] = false
		m.version("1.36.2")
		m.pass(t)
		wantVersions(t, m, "1.36.2", firstWaves)
	})
}

// TestDescribedBakes: neither another move nor a step that changes nothing ends the bake of a wave, and a red one stays
// in the way.
func TestDescribedBakes(t *testing.T) {
	t.Parallel()
	t.Run("another move", func(t *testing.T) {
		t.Parallel()
		m := newManagement(t, withStatuses)
		m.version("1.36.1")
		m.pass(t)
		m.Write("clusters/dev-3.yaml", strings.ReplaceAll(m.Read("clusters/dev-2.yaml"), "dev-2", "dev-3"))
		m.Commit("a cluster")
		m.hydrateThe("dev")
		last := m.hours(t, 2, time.Minute)
		wantVersions(t, m, "1.36.1", "dev-1 dev-2 dev-3 prod-1 prod-2 staging-1 staging-2")
		wants(t, "waits", []string{last.Decision.WaitsFor}, "prod/canary bakes until")
		m.red["workload.prod-1"] = true
		last = m.hours(t, 1, 2*time.Hour)
		wants(t, "waits", []string{last.Decision.WaitsFor}, "red: health: 0 of 1 clusters are healthy")
		wantVersions(t, m, "1.36.1", "dev-1 dev-2 dev-3 prod-1 prod-2 staging-1 staging-2")
	})
	t.Run("an unchanged last step", func(t *testing.T) {
		t.Parallel()
		m := newManagement(t, withStatuses)
		app := strings.ReplaceAll(m.Read("apps/workload/app.yaml"), "name: workload", "name: addons")
		m.Write("apps/addons/app.yaml", strings.Replace(app, "{path: apps/workload/chart}", "{path: apps/workload/chart, releaseName: \"${each.name}\"}", 1))
		m.Write("apps/addons/layers/global/values.yaml", "name: ${each.name}-addons\nversion: fixed\n")
		m.order = "workload, addons"
		m.version("1.35.3")
		m.hours(t, 10, 5*time.Hour)
		m.version("1.36.1")
		m.pass(t)
		last := m.hours(t, 2, 20*time.Minute)
		wantVersions(t, m, "1.36.1", firstWaves)
		wants(t, "waits", []string{last.Decision.WaitsFor}, "prod/canary 1 of 2 bakes until")
	})
}

// TestDescribedGone: the objects of a cluster that is gone stay while its environment is halted or the cluster is
// frozen, and go after the other clusters of that environment.
func TestDescribedGone(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	m.pass(t, ordered(rollout.EventHalt, "h", nil), ordered(rollout.EventFreeze, "f",
		func(c *promote.Command) { c.Target, c.Until = "prod-4", m.now.Add(80*time.Hour) }))
	m.Write("clusters/prod-3.yaml", strings.Replace(m.Read("clusters/prod-3.yaml"), "spec: {", "spec: {state: retired, ", 1))
	m.Write("clusters/prod-4.yaml", strings.Replace(m.Read("clusters/prod-4.yaml"), `capi: "yes"`, `capi: "no"`, 1))
	m.Git("rm", "-q", "clusters/prod-5.yaml")
	m.Commit("prod-3 is retired, prod-4 not selected, prod-5 removed")
	m.hydrateThe("dev")
	last := m.pass(t)
	wantVersions(t, m, "1.35.2", allDescribed)
	wants(t, "halt", []string{last.Decision.WaitsFor}, "described/prod: red: prod: halted by mia")
	m.version("1.36.1")
	m.pass(t, ordered(rollout.EventResume, "r", nil))
	wantVersions(t, m, "1.35.2", "prod-3 prod-4 prod-5 prod-6 prod-7 prod-8")
	m.hours(t, 4, 6*time.Hour)
	wantVersions(t, m, "1.35.2", "prod-4")
	m.hours(t, 2, 60*time.Hour)
	if list := m.Git("ls-tree", "--name-only", "cluster/m"); strings.Contains(list, "prod-4") {
		t.Errorf("the freeze of prod-4 is over, and the branch has %s", list)
	}
}

// TestForEachRemoved: an app with forEach that has another name, or is gone, does not take the clusters with it.
func TestForEachRemoved(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	named := m.Read("apps/workload/app.yaml")
	m.Write("apps/workload/app.yaml", strings.Replace(named, "name: workload", "name: cluster", 1))
	m.Write("clusters/class.yaml", kind+"ClusterClass\nmetadata: {name: standard}\nspec: {kubeVersion: 1.36.1}\n")
	m.Commit("rename")
	m.hydrateThe("dev")
	const refused = "it has no app workload with forEach any more, so the objects of dev-1, dev-2, prod-1, prod-2, prod-3 and 7 more would be removed"
	wants(t, "renamed", []string{m.pass(t).Decision.WaitsFor}, refused)
	wantVersions(t, m, "1.35.2", allDescribed)
	m.Write("apps/workload/app.yaml", strings.Replace(named, `capi: "yes"}`, `capi: "no"}, optional: true`, 1))
	m.Commit("select no cluster")
	m.hydrateThe("dev")
	m.pass(t, ordered(rollout.EventHalt, "h", nil))
	wantVersions(t, m, "1.35.2", "prod-1 prod-2 prod-3 prod-4 prod-5 prod-6 prod-7 prod-8")
	m.Git("rm", "-qr", "apps/workload")
	m.Commit("and removed")
	m.hydrateThe("dev")
	last := m.pass(t, toMgmt(rollout.EventPromote, "n", func(c *promote.Command) { c.Now = true }))
	wants(t, "--now", []string{fmt.Sprint(last.Decision.Gates)}, "so the objects of prod-1,")
	wantVersions(t, m, "1.35.2", "prod-1 prod-2 prod-3 prod-4 prod-5 prod-6 prod-7 prod-8")
}

// TestDescribedFrozenManagement: no wave passes a management cluster that does not have the one before, nor does a minor
// version that it does not have.
func TestDescribedFrozenManagement(t *testing.T) {
	t.Parallel()
	m := newManagement(t, withStatuses)
	m.pass(t, toMgmt(rollout.EventFreeze, "f", func(c *promote.Command) { c.Target, c.Until = "m", m.now.Add(100*time.Hour) }))
	m.version("1.36.1")
	last := m.hours(t, 6, 5*time.Hour)
	wants(t, "frozen", []string{last.Decision.WaitsFor}, "described/staging/all: dev/all has not reached m, which is frozen")
	if log := m.Git("log", "--format=%s", "env/mgmt"); strings.Count(log, "\n") != 1 {
		t.Errorf("more than the first wave moved:\n%s", log)
	}
	m.version("1.37.0")
	last = m.hours(t, 6, 5*time.Hour)
	wants(t, "two minors", []string{fmt.Sprint(last.Decision.Gates)}, "described/staging/all: waiting: dev/all has not reached m, which is frozen")
	if got := m.Git("grep", "-h", "version:", "env/mgmt", "--", "m/workload.dev-1"); !strings.Contains(got, "1.36.1") {
		t.Errorf("the environment branch has %s for dev-1", got)
	}
}

// TestDescribedByName: an app that somebody names waits until its wave has come.
func TestDescribedByName(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: manual, settle: 0s")
	m.pass(t, toMgmt(rollout.EventPromote, "first", nil))
	m.version("1.36.1")
	one := func(id string, now bool) promote.Command {
		return toMgmt(rollout.EventPromote, id, func(c *promote.Command) { c.Apps, c.Now = []string{"workload.prod-8"}, now })
	}
	last := m.pass(t, one("p", false))
	wantVersions(t, m, "1.35.2", allDescribed)
	wants(t, "waits", []string{last.Decision.WaitsFor}, "described/prod/rest: dev/all comes first; `--now` skips the order")
	m.pass(t, one("n", true))
	wantVersions(t, m, "1.36.1", "prod-8")
	m.pass(t, toMgmt(rollout.EventPromote, "d", func(c *promote.Command) { c.Apps = []string{"workload.dev-1"} }))
	wantVersions(t, m, "1.36.1", "dev-1 prod-8")
}

// TestDescribedLagging: one cluster that is two minor versions behind follows in rounds of its own, and holds up nothing
// else.
func TestDescribedLagging(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	m.pass(t, ordered(rollout.EventFreeze, "f", func(c *promote.Command) { c.Target, c.Until = "prod-2", m.now.Add(200*time.Hour) }))
	m.version("1.36.1")
	m.hours(t, 6, 5*time.Hour)
	m.version("1.37.0")
	m.hours(t, 6, 5*time.Hour)
	wantVersions(t, m, "1.35.2", "prod-2")
	wantVersions(t, m, "1.37.0", strings.Replace(allDescribed, " prod-2", "", 1))
	m.now = m.now.Add(200 * time.Hour)
	m.tools("urgent")
	m.Commit("urgent")
	m.hydrateThe("dev")
	list, err := promote.Look(t.Context(), m.Hydrator(2), promote.Request{Trunk: m.tip(), Now: m.now, Adapters: m.adapters(), DryRun: true, Environments: []string{"mgmt"}})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, "the round", []string{fmt.Sprint(list[0].Decision.Gates)}, "it upgrades prod-2 from 1.35.2 to 1.36.1")
	m.pass(t)
	wantVersions(t, m, "1.37.0", allDescribed)
	if log := m.Git("log", "--format=%s", "-p", "env/mgmt", "--", "m/workload.prod-2"); strings.Count(log, "+    version: v") != 3 {
		t.Errorf("prod-2 skips a minor version:\n%s", log)
	}
	if !strings.Contains(m.Git("show", "cluster/m:tools/configmap-tools.yaml"), "urgent") {
		t.Error("what describes no cluster waits for prod-2")
	}
}

// TestDescribedOthers: what describes no cluster does not wait for the clusters of a halted environment.
func TestDescribedOthers(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	m.pass(t, ordered(rollout.EventHalt, "h", nil))
	m.version("1.36.1")
	m.pass(t)
	m.tools("urgent")
	m.Commit("urgent")
	m.hydrateThe("dev")
	last := m.pass(t)
	wants(t, "halt", []string{last.Decision.WaitsFor}, "described/prod: red: prod: halted by mia")
	wantVersions(t, m, "1.36.1", "dev-1 dev-2 staging-1 staging-2")
	if !strings.Contains(m.Git("show", "cluster/m:tools/configmap-tools.yaml"), "urgent") {
		t.Error("what describes no cluster waits for prod")
	}
}

// TestDescribedRollback: a rollback leaves the objects of frozen clusters, and skips no minor version upwards.
func TestDescribedRollback(t *testing.T) {
	t.Parallel()
	m := newManagement(t, "mode: auto, settle: 0s")
	root := m.Git("rev-list", "--max-parents=0", "env/mgmt")
	m.version("1.36.1")
	m.hours(t, 8, 5*time.Hour)
	m.version("1.37.0")
	m.hours(t, 8, 5*time.Hour)
	wantVersions(t, m, "1.37.0", allDescribed)
	top := m.Git("rev-parse", "env/mgmt")
	m.pass(t, ordered(rollout.EventFreeze, "f", func(c *promote.Command) { c.Target, c.Until = "prod-8", m.now.Add(80*time.Hour) }))
	m.pass(t, toMgmt(rollout.EventRollback, "b", func(c *promote.Command) { c.Revision = root }))
	wantVersions(t, m, "1.37.0", "prod-8")
	wantVersions(t, m, "1.35.2", strings.Replace(allDescribed, " prod-8", "", 1))
	if text := m.Git("show", "env/mgmt:.sluice/environment.yaml"); !strings.Contains(text, "workload.prod-8") {
		t.Errorf("the source does not tell that prod-8 stayed: %s", text)
	}
	last := m.pass(t, toMgmt(rollout.EventRollback, "forward", func(c *promote.Command) { c.Revision = top }))
	wantVersions(t, m, "1.35.2", strings.Replace(allDescribed, " prod-8", "", 1))
	if halt := last.Decision.Record.Halt; halt == nil || !strings.Contains(halt.Reason, "Kubernetes skips no minor version") {
		t.Errorf("the halt is %v", halt)
	}
}
