package rollout

import (
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
)

// With ${app}, the status of one app does not count for other apps.
func TestEveryAppHasAStatusOfItsOwn(t *testing.T) {
	green, red := []Status{{Name: "kustomization/shop/eu-1", State: "success"}},
		[]Status{{Name: "kustomization/shop/eu-1", State: "failure"}}
	both := append([]Status{{Name: "kustomization/shop-db/eu-1", State: "success"}}, green...)
	for name, c := range map[string]struct {
		pattern  string
		statuses []Status
		want     State
	}{
		"any is enough":  {"kustomization/*", green, Green},
		"one is missing": {"kustomization/${app}/*", green, Unknown},
		"all are there":  {"kustomization/${app}/*", both, Green},
		"one is red": {"kustomization/${app}/*", append([]Status{{
			Name:  "kustomization/shop-db/eu-1",
			State: "success",
		}}, red...), Red},
		"nothing is there": {"kustomization/${app}/*", nil, Unknown},
		"one is named like": {"kustomization/${app}/*", []Status{{
			Name:  "kustomization/shop-db/eu-1",
			State: "success",
		}}, Unknown},
	} {
		state, why := ofCluster([]string{c.pattern}, ClusterState{
			Cluster: Cluster{Name: "eu-1"}, Tree: "x",
			Apps: []string{"shop", "shop-db"}, Statuses: c.statuses,
		})
		if state != c.want {
			t.Errorf("%s: the state is %s (the why is %s), want %s", name, state, why, c.want)
		}
	}
	h := judge(fleet.Health{CommitStatuses: []string{"kustomization/${app}/*"}},
		[]ClusterState{{Cluster: Cluster{Name: "new"}, Tree: "x", Desired: "x"}})
	if h.state == Green {
		t.Errorf("a cluster of which nothing is known is healthy: %s", h.reason)
	}
	h = judge(fleet.Health{CommitStatuses: []string{"kustomization/${app}/*"}},
		[]ClusterState{{Cluster: Cluster{Name: "empty"}, Tree: "x", Apps: []string{}}})
	if h.state != Green {
		t.Errorf("a cluster without apps is %s: %s", h.state, h.reason)
	}
}

func TestRedClustersAreJudgedOnce(t *testing.T) {
	const apps = 200
	c := ClusterState{}
	for i := range apps {
		c.Apps = append(c.Apps, fmt.Sprintf("team-%d/shop", i))
		c.Statuses = append(c.Statuses, Status{Name: fmt.Sprintf("kustomization/team-%d.shop/x", i), State: "failure"})
	}
	allocated := testing.AllocsPerRun(1, func() {
		if red := redOn([]string{"kustomization/${app}/*"}, c); len(red) != apps {
			t.Errorf("%d workspaces are red, want %d", len(red), apps)
		}
	})
	if allocated > 20*apps {
		t.Errorf("%.0f allocations for %d apps", allocated, apps)
	}
}
