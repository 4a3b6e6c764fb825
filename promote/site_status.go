package promote

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// SiteStatus is what the newest receipt says of an isolated environment, and how far it may be believed.
type SiteStatus struct {
	rollout.Site
	Name     string         // of the site; "" without a receipt
	State    rollout.State  // green if the receipt may be believed
	Reason   string         // why it may not
	AsOf     string         // the receipt and its age, in words
	Age      time.Duration  // of the receipt; 0 without one
	Source   rollout.Source // of the site's environment branch; empty if it is unknown
	Since    time.Time      // since when it has it
	Bundle   int64          // number of the bundle that it imported last; 0 for none
	Clusters map[string]SiteCluster
}

// SiteCluster is what a cluster of a site runs, as its receipt says and as far as it may be believed.
type SiteCluster struct {
	Tree     gitstore.Hash // of its branch; zero if it has none
	Commit   gitstore.Hash // of its branch on the site; it need not exist here
	Since    time.Time
	Statuses []rollout.Status
	Unknown  string // why the statuses are not known; "" if they are
}

// siteStatus describes the site of an environment; nil if its clusters move here.
func (s *snapshot) siteStatus(environment string) *SiteStatus {
	site := s.sites[environment]
	if site == nil {
		return nil
	}
	now := s.request.Now
	gate := site.known.Gate(now)
	out := &SiteStatus{
		Site: site.known, State: gate.State, Reason: gate.Reason, AsOf: site.known.AsOf(now), Source: site.source, Since: site.since,
		Clusters: map[string]SiteCluster{},
	}
	if site.receipt == nil {
		return out
	}
	out.Name, out.Age = site.receipt.Site, max(now.Sub(site.known.Made), 0)
	if b := site.receipt.Bundle; b != nil {
		out.Bundle = b.Sequence
	}
	for _, c := range s.fleet.ClustersOf(environment) {
		says := site.on(c.Name)
		if says == nil {
			continue
		}
		one := SiteCluster{Since: says.Branch.Since, Unknown: says.StatusesUnknown}
		one.Tree, _ = gitstore.ParseHash(says.Branch.Tree) // an empty one is none
		one.Commit, _ = gitstore.ParseHash(says.Branch.Commit)
		for _, st := range says.Statuses {
			one.Statuses = append(one.Statuses, rollout.Status(st))
		}
		out.Clusters[c.Name] = one
	}
	return out
}

// ReadSite describes the site of an isolated environment; nil if the environment's clusters move in this repository.
func ReadSite(ctx context.Context, h *hydrate.Hydrator, r Request, environment string) (*SiteStatus, error) {
	f, _, err := h.Fleet(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	if e, ok := f.Environment(environment); !ok || e.Isolated == nil {
		return nil, nil
	}
	s, err := readSnapshot(ctx, h, r)
	if err != nil {
		return nil, err
	}
	return s.siteStatus(environment), nil
}

// String says what the site runs, or why that is not known.
func (s *SiteStatus) String() string {
	switch {
	case s.State != rollout.Green:
		return fmt.Sprintf("%s: %s", s.State, s.Reason)
	case s.Source.Empty():
		return "its site runs nothing, " + s.AsOf
	case s.Healthy.IsZero():
		return fmt.Sprintf("its site runs %s since %s, its rollout there is not complete, %s", s.Source, rollout.Stamp(s.Since), s.AsOf)
	}
	return fmt.Sprintf("its site runs %s since %s, healthy since %s, %s", s.Source, rollout.Stamp(s.Since), rollout.Stamp(s.Healthy),
		s.AsOf)
}

// write writes what is known of the site.
func (s *SiteStatus) write(t *textWriter, environment string) {
	if s == nil {
		return
	}
	t.line("receipt", s.String())
	if s.ClockAhead > time.Minute {
		t.line("", fmt.Sprintf("the site's clock is ahead by %s at least: its times are shifted", s.ClockAhead))
	}
	if s.Halt != nil {
		t.line("", fmt.Sprintf("its site was %s (since %s)", s.Halt, rollout.Stamp(s.Halt.At)))
	}
	for _, f := range s.Freezes {
		target := f.Target
		if target == "" {
			target = environment
		}
		t.line("", fmt.Sprintf("on its site, %s is %s", target, f))
	}
}
