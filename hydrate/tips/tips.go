// Package tips knows the tips of the branches of an environment's clusters, and keeps between runs which of them may stand there.
package tips

import (
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/memo"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// Tip is the tip of the branch of a cluster.
type Tip struct {
	Cluster *fleet.Cluster
	Branch  string
	Hash    gitstore.Hash // zero if the branch does not exist
	// Tree is the tree of the commit, if this run or an earlier one found that the commit may stand at the tip of the branch; otherwise zero.
	// What decides that is in the commit, which its hash names, and in the keys that may sign.
	Tree gitstore.Hash

	from origin
}

// origin says where Tree comes from.
type origin int

const (
	fromRun   origin = iota // this run, or it is not known
	fromEntry               // it was kept by itself
	fromList                // the list has it
)

// A large environment has thousands of tips, of which a run moves a few. What is known of them is one list, and what this run found out is kept
// tip by tip, until those are one of manyStale.
const (
	manyTips  = 64
	manyStale = 16
)

// List are the tips of the branches of an environment's clusters, by the names of the clusters. It is not safe for concurrent use.
type List struct {
	Tips []Tip

	kept        *memo.File
	environment string
	allowed     signers.List
}

// Read returns the tips of an environment's clusters in refs, which has branches by name. kept has what earlier runs found out; nil has nothing.
// allowed are the signers that the trunk lists.
func Read(f *fleet.Fleet, environment string, refs map[string]gitstore.Hash, kept *memo.File, allowed signers.List) *List {
	clusters := f.ClustersOf(environment)
	l := &List{Tips: make([]Tip, len(clusters)), kept: kept, environment: environment, allowed: allowed}
	list, _ := kept.Get(l.key())
	rows := memo.RowsOf(list)
	for i, c := range clusters {
		t := &l.Tips[i]
		t.Cluster, t.Branch = c, f.ClusterBranch(c)
		if t.Hash = refs[t.Branch]; t.Hash.IsZero() || kept == nil {
			continue
		}
		tree, ok := rows.Find(c.Name, string(t.Hash[:]))
		from := fromList
		if !ok {
			tree, ok = kept.Get(Key(t.Hash, branch.Owner{Environment: environment, Cluster: c.Name}, allowed))
			from = fromEntry
		}
		if ok && len(tree) == len(t.Tree) {
			t.Tree, t.from = gitstore.Hash(tree), from
		}
	}
	return l
}

// Unknown returns the tips of which nothing is known: their commits have to be read.
func (l *List) Unknown() []gitstore.Hash {
	var out []gitstore.Hash
	for _, t := range l.Tips {
		if !t.Hash.IsZero() && t.Tree.IsZero() {
			out = append(out, t.Hash)
		}
	}
	return out
}

// Moving returns the tips that are known, and whose cluster gets another tree, by its name: their commits have to be read too.
func (l *List) Moving(want map[string]gitstore.Hash) []gitstore.Hash {
	var out []gitstore.Hash
	for _, t := range l.Tips {
		if !t.Tree.IsZero() && t.Tree != want[t.Cluster.Name] {
			out = append(out, t.Hash)
		}
	}
	return out
}

// Keep keeps the trees of the tips for later runs.
func (l *List) Keep() {
	if !l.kept.Puts() {
		return
	}
	stale := 0
	for _, t := range l.Tips {
		if !t.Tree.IsZero() && t.from != fromList {
			stale++
		}
	}
	if stale <= max(manyTips, len(l.Tips))/manyStale {
		for _, t := range l.Tips {
			if !t.Tree.IsZero() && t.from == fromRun {
				l.kept.Put(Key(t.Hash, branch.Owner{Environment: l.environment, Cluster: t.Cluster.Name}, l.allowed), slices.Clone(t.Tree[:]))
			}
		}
		return
	}
	var list []byte
	for _, t := range l.Tips {
		if !t.Tree.IsZero() {
			list = memo.AppendRow(list, t.Cluster.Name, string(t.Hash[:]), t.Tree[:])
		}
	}
	l.kept.Put(l.key(), list)
}

func (l *List) key() memo.Key { return ListKey(l.environment, l.allowed) }

// Key names the tree of one tip.
func Key(tip gitstore.Hash, owner branch.Owner, allowed signers.List) memo.Key {
	return memo.KeyOf("tip of a cluster", string(tip[:]), owner.Environment, owner.Cluster, allowed.ID())
}

// ListKey names the list of the trees of an environment's tips: a row for each cluster, with the tip as its id.
func ListKey(environment string, allowed signers.List) memo.Key {
	return memo.KeyOf("tips of clusters", environment, allowed.ID())
}
