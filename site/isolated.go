package site

import (
	"cmp"
	"errors"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// elsewhere returns what the site of an isolated environment runs; nil if the environment's clusters move here.
func (e *Environment) elsewhere() *promote.SiteStatus {
	if e.Status == nil {
		return nil
	}
	return e.Status.Site
}

// Receipt says what the site of an isolated environment runs, and as of when; "" for other environments.
func (e *Environment) Receipt() string {
	if s := e.elsewhere(); s != nil {
		return s.String()
	}
	return ""
}

// Kept are the freezes of the site of an isolated environment.
func (e *Environment) Kept() []rollout.Freeze {
	if s := e.elsewhere(); s != nil {
		return s.Freezes
	}
	return nil
}

// reported describes a cluster of an isolated environment as its receipt does. Its tip is a commit of the site, which
// need not exist here.
func (b *reader) reported(c *Cluster, s *promote.SiteStatus) error {
	one := s.Clusters[c.Name]
	if one.Tree.IsZero() {
		return nil
	}
	c.Tip = gitstore.Commit{Hash: one.Commit, Tree: one.Tree}
	c.Tip.Committer.When = one.Since
	if one.Tree == c.Desired {
		return nil
	}
	now, err := b.state(c.Environment)
	if err != nil {
		return err
	}
	st, err := promote.EarlierState(b.ctx, b.h, now, c.Name, one.Tree)
	if errors.Is(err, rollout.ErrNoTree) {
		return nil
	}
	if err == nil {
		c.Runs = st.Source().On(c.Name)
	}
	return err
}

// reportedTrouble says why a cluster of an isolated environment is not known to run what the environment branch has.
func reportedTrouble(c *Cluster, s *promote.SiteStatus) {
	one, known := s.Clusters[c.Name]
	switch {
	case s.State != rollout.Green:
		c.Trouble, c.Planned = s.Reason, s.State != rollout.Red
	case !known:
		c.Trouble, c.Planned = "unknown: the newest receipt does not name it, "+s.AsOf, true
	case one.Tree != c.Desired:
		c.Trouble, c.Planned = "its site has not moved it, "+s.AsOf, true
	}
}

// reportedHealth judges the clusters of isolated environments by the statuses of their receipts.
func (b *reader) reportedHealth() {
	for _, c := range b.out.Clusters {
		s := c.Environment.elsewhere()
		gates := gatesOf(b.fleet, c.Environment.Name)
		if s == nil || len(gates) == 0 || c.Tip.Hash.IsZero() {
			continue
		}
		one := s.Clusters[c.Name]
		have := knownStatuses{list: one.Statuses, at: b.request.Now}
		if s.State != rollout.Green || one.Unknown != "" {
			have = knownStatuses{why: cmp.Or(s.Reason, one.Unknown)}
		}
		c.Health = judge(gates, c, have, b.request.Now)
	}
}
