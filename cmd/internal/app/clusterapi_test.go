package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bed/bedtest"
)

// managementFleet is a fleet whose management cluster has the objects of twelve clusters.
var managementFleet = map[string]string{
	"sluice.yaml": `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: harbour}
spec:
  trunk: main
  layers: [class, cluster]
  environments:
    - name: dev
    - {name: staging, after: [dev], promotion: {mode: auto}}
    - name: prod
      after: [staging]
      promotion:
        mode: auto
        waves:
          - {name: canary, clusters: {matchLabels: {ring: canary}}, bake: 2s}
          - {name: half, clusters: {matchLabels: {ring: half}}}
          - {name: rest}
    - name: mgmt
      after: [dev]
      promotion:
        mode: auto
        health: {commitStatuses: ["kustomization/${app}/*"]}
        rights:
          - {verbs: [promote, now], users: [mia]}
`,
	"clusters/management.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: management, labels: {role: management}}\nspec: {environment: mgmt}\n",
	"apps/workload/app.yaml": `apiVersion: sluice.dev/v1alpha1
kind: App
metadata: {name: workload}
spec:
  namespace: clusters
  placement: {matchLabels: {role: management}}
  forEach: {clusters: {matchLabels: {capi: kubeadm}}}
  source: {helm: {path: apps/workload/chart, releaseName: "${each.name}"}}
`,
	"apps/workload/chart/Chart.yaml":          "apiVersion: v2\nname: workload\nversion: 1.0.0\n",
	"apps/workload/layers/global/values.yaml": "version: v${each.kubeVersion}\n",
	"apps/workload/chart/templates/cluster.yaml": `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: "{{ .Release.Name }}"}
spec:
  topology:
    classRef: {name: standard}
    version: {{ .Values.version }}
    workers: {machineDeployments: [{class: default, name: default, replicas: 2}]}
`,
}

// described are the clusters of the fleet, in the waves in which they are upgraded.
var described = [][]string{
	{"dev-1", "dev-2"},
	{"staging-1", "staging-2"},
	{"prod-1", "prod-2"},
	{"prod-3", "prod-4", "prod-5"},
	{"prod-6", "prod-7", "prod-8"},
}

// upgradeTo gives all described clusters a version, on a branch from main.
func (s *story) upgradeTo(branch, version string) {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", branch, "origin/main")
	writeAll(s, work, map[string]string{
		"clusters/class.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: ClusterClass\nmetadata: {name: standard}\nspec: {kubeVersion: " + version + "}\n",
	})
	s.commit("Kubernetes " + version)
	s.push(branch)
}

// writeManagementFleet makes the repository that of the fleet, with all clusters at a version.
func (s *story) writeManagementFleet(version string) {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	s.run(work, "rm", "-rq", ".")
	writeAll(s, work, managementFleet)
	for i, wave := range described {
		for _, name := range wave {
			environment, _, _ := strings.Cut(name, "-")
			ring := []string{"canary", "canary", "canary", "half", "rest"}[i]
			writeAll(s, work, map[string]string{"clusters/" + name + ".yaml": fmt.Sprintf(
				"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: %s, labels: {capi: kubeadm, ring: %s}}\nspec: {environment: %s, class: standard}\n",
				name, ring, environment)})
		}
	}
	s.commit("twelve clusters")
	s.push("main")
	s.upgradeTo("main", version)
}

// clusterAPI plays the controllers of Cluster API on an API server: it brings each Cluster to the version that it asks
// for, and reports that in its conditions. It records what it sees.
type clusterAPI struct {
	*bedtest.Kubernetes

	mu       sync.Mutex
	err      error                // of the last attempt
	versions map[string][]string  // that each cluster was asked for, in their order
	began    map[string]time.Time // by cluster and version
	done     map[string]time.Time
	broken   map[string]string // version with which a cluster does not come up
}

// workloadCluster is what the controllers read and write of a Cluster.
type workloadCluster struct {
	Metadata struct {
		Name       string
		Generation int64
	}
	Spec struct {
		Topology struct{ Version string }
	}
	Status struct{ ObservedGeneration int64 }
}

const workloadClusters = "/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/clusters"

// run plays the controllers until the context ends.
func (c *clusterAPI) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.reconcile(ctx) // a new API server may refuse at first
		c.mu.Lock()
		if ctx.Err() == nil {
			c.err = err
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *clusterAPI) reconcile(ctx context.Context) error {
	data, err := c.Do(ctx, http.MethodGet, workloadClusters, nil)
	if err != nil {
		return err
	}
	var list struct{ Items []workloadCluster }
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, one := range list.Items {
		if err := c.report(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// report writes the status of a cluster: a second after its version changed, the new machines are there.
func (c *clusterAPI) report(ctx context.Context, one workloadCluster) error {
	c.mu.Lock()
	name, version := one.Metadata.Name, one.Spec.Topology.Version
	if seen := c.versions[name]; len(seen) == 0 || seen[len(seen)-1] != version {
		c.versions[name] = append(seen, version)
		c.began[name+version] = time.Now()
	}
	moving := time.Since(c.began[name+version]) < time.Second
	failed := !moving && c.broken[name] == version
	known := !c.done[name+version].IsZero() && one.Status.ObservedGeneration == one.Metadata.Generation
	if !moving && !failed && c.done[name+version].IsZero() {
		c.done[name+version] = time.Now()
	}
	c.mu.Unlock()
	if known {
		return nil
	}
	status := map[bool]string{true: "True", false: "False"}
	condition := func(name string, is bool) map[string]any {
		return map[string]any{
			"type": name, "status": status[is], "reason": "Test", "message": "", "observedGeneration": one.Metadata.Generation,
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}
	}
	phase := "Provisioned"
	if failed {
		phase = "Failed"
	}
	return c.PatchStatus(ctx, workloadClusters+"/"+name, map[string]any{
		"observedGeneration": one.Metadata.Generation, "phase": phase,
		"conditions": []any{
			condition("Available", !moving && !failed), condition("RollingOut", moving), condition("TopologyReconciled", !moving),
		},
	})
}

// all reports whether all clusters were asked for a version last, and have it.
func (c *clusterAPI) all(version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Concat(described...) {
		seen := c.versions[name]
		if len(seen) == 0 || seen[len(seen)-1] != version || c.done[name+version].IsZero() {
			return false
		}
	}
	return true
}

// reached reports whether all clusters have had a version.
func (c *clusterAPI) reached(version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(slices.Concat(described...), func(name string) bool { return c.done[name+version].IsZero() })
}

// seen lists the versions that a cluster was asked for.
func (c *clusterAPI) seen(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.versions[name], " ")
}

// inWaves compares when the waves of an upgrade began with when those before were done. Clusters that got the version by
// name do not count.
func (c *clusterAPI) inWaves(t *testing.T, version string, without ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var before time.Time
	last := ""
	for _, wave := range described {
		var done time.Time
		for _, name := range wave {
			if slices.Contains(without, name) {
				continue
			}
			began := c.began[name+version]
			if began.Before(before) {
				t.Errorf("%s gets %s %s before %s has it", name, version, before.Sub(began), last)
			}
			if d := c.done[name+version]; d.After(done) {
				done, last = d, name
			}
		}
		before = done
	}
}

// Twelve clusters, which Cluster API manages from a management cluster that Flux syncs, are upgraded over two minor
// versions that are both on the trunk from the beginning. The canary of the second round turns red, and no later wave
// moves; a correction brings all of them to the end.
func TestFluxUpgradesClusters(t *testing.T) {
	needs(t, []string{"flux", "cluster-api"}, func(t *testing.T, s *story) {
		t.Helper()
		s.writeManagementFleet("1.35.2")
		s.start()
		s.until("management has a branch", func() bool { return s.ref("cluster/management") != "" })
		k := s.startCluster("management", func(ctx context.Context, k *bedtest.Kubernetes, dir string) (syncer, error) {
			if err := k.AddClusterAPIKinds(ctx); err != nil {
				return nil, err
			}
			if err := k.AddFluxKinds(ctx); err != nil {
				return nil, err
			}
			return k.StartFlux(ctx, dir)
		})
		c := &clusterAPI{
			Kubernetes: k.Kubernetes, versions: map[string][]string{}, began: map[string]time.Time{}, done: map[string]time.Time{},
			broken: map[string]string{"prod-1": "v1.37.0"},
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		var played sync.WaitGroup
		played.Go(func() { c.run(ctx) })
		t.Cleanup(func() {
			stop()
			played.Wait()
		})
		k.statusSecret(s.statusToken())
		k.do(k.bootstrapFlux("--part", "namespaces"), "create", "-f", "-")
		k.do(k.bootstrapFlux(), "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
		green := func(app string) bool {
			return s.status(s.ref("cluster/management"), "kustomization/"+app+"/management") == "success"
		}
		s.until("all clusters run 1.35", func() bool { return c.all("v1.35.2") })
		s.until("Flux says so", func() bool { return green("workload.dev-1") && green("workload.prod-8") })

		s.upgradeTo("main", "1.36.1")
		s.upgradeTo("main", "1.37.0")
		s.until("all clusters run 1.36", func() bool { return c.reached("v1.36.1") })
		c.inWaves(t, "v1.36.1")
		red := "kustomization/workload.prod-1/management"
		s.until("the canary of the second round is red", func() bool { return s.status(s.ref("cluster/management"), red) == "failure" })
		s.until("mgmt is halted", func() bool { return s.holds("sluice/state", red+" is failure") })
		time.Sleep(12 * time.Second) // the service looks twice
		for _, name := range slices.Concat(described[3:]...) {
			if got := c.seen(name); got != "v1.35.2 v1.36.1" {
				t.Errorf("the canary is red, and %s was asked for %s", name, got)
			}
		}

		s.upgradeTo("fix", "1.37.1")
		n := s.open("fix", "ada")
		s.merge(n)
		s.until("dev has the correction", func() bool { return s.holds("env/dev", s.ref("main")) })
		s.say(n, "mia", "/sluice promote mgmt --app workload.prod-1 --now --reason 'the canary is red'")
		s.until("all clusters run 1.37", func() bool { return c.all("v1.37.1") })
		c.inWaves(t, "v1.37.1", "prod-1")
		for i, wave := range described {
			for _, name := range wave {
				want := "v1.35.2 v1.36.1 v1.37.1"
				if i < 3 {
					want = "v1.35.2 v1.36.1 v1.37.0 v1.37.1"
				}
				if got := c.seen(name); got != want {
					t.Errorf("%s was asked for %s, want %s", name, got, want)
				}
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err != nil {
			t.Errorf("Cluster API: %v", c.err)
		}
	})
}
