package promote

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// SetBack is a branch that does not contain the commit that Sluice recorded for it: somebody moved it to another state,
// mostly to an older one, or deleted it.
type SetBack struct {
	Branch  string
	Cluster string          // "": it is the environment's branch
	Had     gitstore.Hash   // the recorded commit
	Has     gitstore.Commit // its tip; zero: it was deleted
}

// Deleted reports whether the branch does not exist.
func (b SetBack) Deleted() bool { return b.Has.Hash.IsZero() }

// String says what happened to the branch: "somebody set env/prod back: it is at 1a2b3c4d5e and does not contain …".
func (b SetBack) String() string {
	if b.Deleted() {
		return fmt.Sprintf("somebody deleted %s, which was at %s", b.Branch, b.Had.Short())
	}
	return fmt.Sprintf("somebody set %s back: it is at %s and does not contain %s, which it had before", b.Branch,
		b.Has.Hash.Short(), b.Had.Short())
}

// advice is String with what a person does about it.
func (b SetBack) advice(environment string) string {
	if b.Deleted() {
		return fmt.Sprintf("%s: `sluice repair %s --restore` brings it back, `sluice promote %[2]s --recreate` creates it anew", b, environment)
	}
	return fmt.Sprintf("%s, so Sluice does not move it: `sluice repair %s --restore` brings that state back, `sluice repair %[2]s --adopt --reason WHY` keeps the present one as a rollback",
		b, environment)
}

// SetBacks lists the branches of an environment that do not contain the commit in its record, the environment's own
// first. Retired clusters are not among them, nor those whose branches move elsewhere. refs has the branches with
// BranchPrefixes.
func SetBacks(ctx context.Context, h *hydrate.Hydrator, f *fleet.Fleet, environment string, record rollout.Record,
	refs map[string]gitstore.Hash,
) ([]SetBack, error) {
	var out []SetBack
	check := func(name, cluster, had string) error {
		tip := refs[name]
		if had == "" || tip.String() == had {
			return nil
		}
		recorded, err := gitstore.ParseHash(had)
		if err != nil {
			return fmt.Errorf("the record of %s: %w", environment, err)
		}
		if tip.IsZero() {
			out = append(out, SetBack{Branch: name, Cluster: cluster, Had: recorded})
			return nil
		}
		if err := h.Branches.Fetch(ctx, tip); err != nil {
			return err
		}
		commit, err := h.Store.Commit(ctx, tip)
		if err != nil {
			return err
		}
		ok, err := contains(ctx, h, commit, recorded)
		if err == nil && !ok {
			out = append(out, SetBack{name, cluster, recorded, commit})
		}
		return err
	}
	if err := check(f.EnvironmentBranch(environment), "", record.Tip); err != nil {
		return nil, err
	}
	if e, ok := f.Environment(environment); ok && Elsewhere(f, *e, refs) {
		return out, nil
	}
	for _, c := range f.ClustersOf(environment) {
		if c.Retired() {
			continue
		}
		if err := check(f.ClusterBranch(c), c.Name, record.Tips[c.Name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// contains reports whether a commit is tip or one of its ancestors. The record is written again after each move, so it
// is mostly a parent.
func contains(ctx context.Context, h *hydrate.Hydrator, tip gitstore.Commit, commit gitstore.Hash) (bool, error) {
	if tip.Hash == commit || slices.Contains(tip.Parents, commit) {
		return true, nil
	}
	ok, err := h.Store.IsAncestor(ctx, commit, tip.Hash)
	if err == nil || !unknownHistory(err) {
		return ok, err
	}
	for at := tip; len(at.Parents) > 0; { // the commit may be nowhere any more, but the history of tip tells
		if at, err = parent(ctx, h, at); err != nil {
			return false, err
		}
		if at.Hash == commit {
			return true, nil
		}
	}
	return false, nil
}

// parent reads the first parent of a commit on a rendered branch.
func parent(ctx context.Context, h *hydrate.Hydrator, of gitstore.Commit) (gitstore.Commit, error) {
	if err := h.Branches.Fetch(ctx, of.Parents[0]); err != nil {
		return gitstore.Commit{}, err
	}
	return h.Store.Commit(ctx, of.Parents[0])
}

// findMoved notices branches that somebody deleted, set back, or that cannot exist beside another one, and records the
// tips of the others.
func (o *observer) findMoved(ctx context.Context, s *rollout.Situation) error {
	e := s.Environment.Name
	moved, err := SetBacks(ctx, o.hydrator, o.fleet, e, s.Record, o.refs)
	if err != nil {
		return err
	}
	back := map[string]string{} // by cluster
	for _, b := range moved {
		back[b.Cluster] = b.advice(e)
	}
	deleted := s.Running.Commit == ""
	if why := back[""]; why != "" && (deleted && !o.request.Recreate || !deleted && s.Running.Foreign == "") {
		s.Running.Foreign = why
	}
	if deleted && o.request.Recreate && len(s.Record.Holds) > 0 { // nothing says what the held apps would run
		s.Running.Foreign = fmt.Sprintf("%s is not created anew while something is held back (%s): `sluice repair %s --restore` brings the branch back; or end the holds first with `sluice resume %[3]s --hold NAME`",
			o.states[e].Branch, s.Record.Holds[0], e)
	}
	if s.Running.Foreign == "" {
		s.Record.Tip = s.Running.Commit // "" with --recreate: any commit may come next
	}
	if site := o.sites[e]; site != nil {
		s.Record.Tips = nil
		if site.known.Unknown == "" {
			s.Record.Receipt, s.Record.ReceiptCommit = site.known.Sequence, site.commit
		}
		return nil
	}
	tips := map[string]string{}
	for i := range s.Clusters {
		c := &s.Clusters[i]
		known, existed := s.Record.Tips[c.Name]
		config, _ := o.fleet.Cluster(c.Name)
		switch tip := o.refs[o.fleet.ClusterBranch(config)]; {
		case c.State == "retired":
		case tip.IsZero():
			if other := beside(o.refs, o.fleet.ClusterBranch(config)); other != "" {
				c.Foreign = other
			} else if existed && !o.request.Recreate {
				c.Foreign = cmp.Or(back[c.Name], fmt.Sprintf("somebody deleted the branch of %s: `sluice promote %s --recreate` creates it again",
					c.Name, e)) + ", or retire the cluster"
			}
			if existed && !o.request.Recreate {
				tips[c.Name] = known
			}
		case back[c.Name] != "" || c.Foreign != "":
			if c.Foreign == "" {
				c.Foreign = back[c.Name]
			}
			tips[c.Name] = known
		default:
			tips[c.Name] = tip.String()
		}
	}
	s.Record.Tips = tips
	return nil
}

// beside says that a branch cannot be created because the name of another one continues its name as a folder, of which
// Git cannot have both; "" if there is none.
func beside(refs map[string]gitstore.Hash, name string) string {
	first := ""
	for ref := range refs {
		if strings.HasPrefix(ref, name+"/") && (first == "" || ref < first) {
			first = ref
		}
	}
	if first == "" {
		return ""
	}
	why := fmt.Sprintf("%s cannot be created beside %s: delete or rename that branch", name, first)
	if plainBranch.MatchString(first) { // others may hold what a shell understands
		why += fmt.Sprintf(", as with `git push origin --delete %s`", first)
	}
	return why
}

var plainBranch = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9/._-]*$`)
