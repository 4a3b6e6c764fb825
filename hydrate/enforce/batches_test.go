package enforce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/policy"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// treesOfTest are the trees of a target with objects of its own, or with shared ones.
func treesOfTest(n int) Key { return Key{Trees: [2]gitstore.Hash{1: {byte(n), byte(n >> 8), 1}}} }

func TestBatchesHaveWholeClusters(t *testing.T) {
	t.Parallel()
	const clusters, apps, files, most = 30, 7, 3, 50
	// App by app, as a list of candidates can be. Every second target has a state of the cluster of its own.
	at := func(i int) Part {
		c := i % clusters
		return Part{
			Cluster: &fleet.Cluster{Name: fmt.Sprint("c-", c)},
			App:     policy.App{Name: fmt.Sprint("a-", i/clusters)}, Objects: treesOfTest(i), Files: files,
		}
	}
	where, seen := map[string]int{}, map[int]bool{}
	list := batches(clusters*apps, at, most)
	if len(list) < 5 {
		t.Fatalf("%d batches", len(list))
	}
	for n, batch := range list {
		if len(batch)*files > most+apps*files {
			t.Errorf("batch %d has %d files", n, len(batch)*files)
		}
		for _, i := range batch {
			cluster := at(i).Cluster.Name
			if other, ok := where[cluster]; ok && other != n || seen[i] {
				t.Errorf("%s is in the batches %d and %d, target %d", cluster, other, n, i)
			}
			where[cluster], seen[i] = n, true
		}
	}
	if len(seen) != clusters*apps {
		t.Errorf("%d targets", len(seen))
	}
	if one := batches(clusters*apps, at, clusters*apps*files); len(one) != 1 || !slices.IsSorted(one[0]) {
		t.Errorf("what fits into one batch keeps its order: %v", one)
	}
	// Equal objects count once, and targets without files are left out.
	shared := func(i int) Part {
		p := at(i)
		if p.Objects = treesOfTest(1); i%2 == 1 {
			p.Files = 0
		}
		return p
	}
	if one := batches(clusters*apps, shared, most); len(one) != 1 || len(one[0]) != clusters*apps/2 {
		t.Errorf("equal objects: %v", one)
	}
	if none := batches(0, at, most); none != nil {
		t.Errorf("nothing: %v", none)
	}
}

func TestBatchesReadOnce(t *testing.T) {
	t.Parallel()
	const n = 100
	at := func(i int) Part {
		return Part{
			Cluster: &fleet.Cluster{Name: fmt.Sprint("c-", i)}, App: policy.App{Name: "web"},
			Objects: treesOfTest(i % 2), Files: batchFiles,
		}
	}
	var read atomic.Int32
	object := []policy.Object{{Key: "a", Object: manifest.Object{"kind": "ConfigMap"}}}
	subjects, batches := 0, 0
	for list, err := range Batches(t.Context(), n, at, func(_ context.Context, i int) ([]policy.Object, error) {
		read.Add(1)
		if i%2 == 1 {
			return nil, nil // files that are not Sluice's
		}
		return object, nil
	}) {
		if err != nil {
			t.Fatal(err)
		}
		subjects, batches = subjects+len(list), batches+1
	}
	if subjects != n/2 || int(read.Load()) > 2*batches || batches < 10 {
		t.Errorf("%d subjects in %d batches, %d read", subjects, batches, read.Load())
	}
	broken := errors.New("a blob is missing")
	calls := 0
	for list, err := range Batches(t.Context(), n, at, func(context.Context, int) ([]policy.Object, error) {
		return nil,
			broken
	}) {
		if calls++; !errors.Is(err, broken) || list != nil || calls > 1 {
			t.Errorf("call %d: %v, %v", calls, list, err)
		}
	}
}
