package promote_test

import (
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
