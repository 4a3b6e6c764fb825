package enforce

import (
	"context"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/parallel"
	"github.com/sluice-gitops/sluice/policy"
)

// Part is a target to judge.
type Part struct {
	Cluster *fleet.Cluster
	App     policy.App
	Objects Key
	Files   int // number of files to read; without any, the target is left out
}

// Key identifies the objects of a target. In one call of Batches, targets with equal keys have equal objects.
type Key struct {
	Trees [2]gitstore.Hash // before and after
	All   bool             // further objects too: those that differ and are no Secrets, or those that are equal
}

// batchFiles is the number of different files of a batch. The objects of one take some kilobytes of memory each.
const batchFiles = 1 << 14

// Batches returns n targets as subjects. at describes a target. read reads its objects; it is called once in a batch
// for equal keys, and several calls run at the same time. In memory is one batch: about batchFiles objects, or those of
// one cluster if it has more.
func Batches(ctx context.Context, n int, at func(i int) Part,
	read func(ctx context.Context, i int) ([]policy.Object, error),
) policy.Subjects {
	return func(yield func([]policy.Subject, error) bool) {
		for _, batch := range batches(n, at, batchFiles) {
			list, err := subjects(ctx, batch, at, read)
			if !yield(list, err) || err != nil {
				return
			}
		}
	}
}

// batches divides n targets into lists with about most files each. If that is one list, it has the order of the
// targets; otherwise all targets of a cluster follow each other.
func batches(n int, at func(i int) Part, most int) [][]int {
	var order []string // names, since a change can have two states of a cluster
	byCluster := map[string][]int{}
	all := make([]int, 0, n)
	seen, files := map[Key]bool{}, 0
	for i := range n {
		p := at(i)
		if p.Files == 0 {
			continue
		}
		name := p.Cluster.Name
		if _, ok := byCluster[name]; !ok {
			order = append(order, name)
		}
		byCluster[name] = append(byCluster[name], i)
		all = append(all, i)
		if !seen[p.Objects] {
			seen[p.Objects] = true
			files += p.Files
		}
	}
	if len(all) == 0 {
		return nil
	}
	if files <= most {
		return [][]int{all}
	}
	var out [][]int
	var batch []int
	clear(seen)
	files = 0
	for _, cluster := range order {
		batch = append(batch, byCluster[cluster]...)
		for _, i := range byCluster[cluster] {
			if p := at(i); !seen[p.Objects] {
				seen[p.Objects] = true
				files += p.Files
			}
		}
		if files >= most {
			out, batch, files = append(out, batch), nil, 0
			clear(seen)
		}
	}
	if len(batch) > 0 {
		out = append(out, batch)
	}
	return out
}

// subjects reads the targets of a batch, on all processors. Those without objects are left out.
func subjects(ctx context.Context, batch []int, at func(i int) Part,
	read func(ctx context.Context, i int) ([]policy.Object, error),
) ([]policy.Subject, error) {
	places := map[Key]int{} // in distinct
	var distinct []int
	for _, i := range batch {
		key := at(i).Objects
		if _, ok := places[key]; !ok {
			places[key], distinct = len(distinct), append(distinct, i)
		}
	}
	lists := make([][]policy.Object, len(distinct))
	err := parallel.Each(ctx, len(distinct), func(ctx context.Context, n int) (err error) {
		lists[n], err = read(ctx, distinct[n])
		return err
	})
	if err != nil {
		return nil, err
	}
	clusters := map[*fleet.Cluster]*policy.Cluster{}
	apps := map[policy.App]*policy.App{}
	out := make([]policy.Subject, 0, len(batch))
	for _, i := range batch {
		p := at(i)
		list := lists[places[p.Objects]]
		if len(list) == 0 {
			continue
		}
		if clusters[p.Cluster] == nil {
			clusters[p.Cluster] = Cluster(p.Cluster)
		}
		if apps[p.App] == nil {
			apps[p.App] = &p.App
		}
		out = append(out, policy.Subject{Cluster: clusters[p.Cluster], App: apps[p.App], Objects: list})
	}
	return out, nil
}
