package site

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// Health is what the commit statuses on the tip of a cluster's branch say, as the health gates judge them.
type Health struct {
	rollout.ClusterHealth

	Posted []rollout.Status // all statuses of the commit
	Read   time.Time        // when; zero if they have not been read yet
}

// Synced reports whether a status of the tip matches a pattern of a health gate. Statuses of other systems do not
// count.
func (h *Health) Synced() bool { return len(h.Named) > 0 }

// Forges limit requests. Live pages read this number of commits per minute and fleet: StatusReads with a request for
// each commit, and BulkReads where one request reads up to a hundred of them.
const (
	StatusReads = 30
	BulkReads   = 1000

	bulkRequests = 40 // for many commits, in a minute: GitLab answers a few commits with each
)

// BulkReader is a StatusReader that can read many commits with one request.
type BulkReader interface {
	promote.StatusReader
	// Bulk returns the statuses by commit, with one request; commits that it does not have must be read alone. The
	// error is errors.ErrUnsupported if all must, for now.
	Bulk(ctx context.Context, commits []string) (map[string][]rollout.Status, error)
	// MostBulk is the greatest number of commits of one request; 0 if there is no such request.
	MostBulk() int
}

// Thrifty is a StatusReader that knows the rate limit of its forge.
type Thrifty interface {
	// Stretch is the factor by which fewer commits are read in a minute, because the rate limit runs low.
	Stretch(bulk bool) int
}

const (
	settledFor = 10 * time.Minute // a commit whose cluster is healthy is read again after this time
	movingFor  = time.Minute      // others
	validFor   = 2 * settledFor   // older statuses are unknown
)

// Statuses caches the statuses of the tips of cluster branches between calls of Read, and limits the requests for them.
// It is safe for concurrent use.
type Statuses struct {
	most, mostBulk int // commits per minute: with a request for each, and with one for many

	mu     sync.Mutex
	why    string // commits were not read; "" if they will be
	of     map[gitstore.Hash]knownStatuses
	since  time.Time // beginning of the minute in which asked and bulked count
	asked  int       // commits, each with a request
	bulked int       // commits of requests for many
	over   int       // commits that Refresh did not ask for because of the limit
	batch  int       // commits of one request; 0 is the most
	noBulk time.Time // when a request for many was last refused
}

// NewStatuses returns an empty cache that reads at most these numbers of commits in a minute: with a request for each,
// and with one for many.
func NewStatuses(most, bulk int) *Statuses {
	return &Statuses{most: most, mostBulk: bulk, of: map[gitstore.Hash]knownStatuses{}}
}

// NoStatuses returns a cache without statuses, which says why none were read.
func NoStatuses(why string) *Statuses { return &Statuses{why: why} }

// NotRead sets why commits that Refresh did not read are unknown. Without it, a later Refresh reads them.
func (s *Statuses) NotRead(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why
}

// Over returns the number of commits that the last Refresh did not ask for because of the limit.
func (s *Statuses) Over() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

type knownStatuses struct {
	list    []rollout.Status
	at      time.Time // of the last answer
	why     string    // it was not read; "" if it will be
	tried   time.Time // of the last request
	failed  bool      // the last request
	lacked  time.Time // when a request for many commits last did not return it
	healthy bool      // all clusters with this commit are
}

func (k *knownStatuses) fresh(now time.Time) bool {
	age := now.Sub(k.tried)
	return !k.tried.IsZero() && (age < movingFor || age < settledFor && k.healthy && !k.failed)
}

// unknown says why the statuses are not known; "" if they are.
func (k *knownStatuses) unknown(now time.Time) string {
	switch {
	case k.at.IsZero() && k.why != "":
		return k.why
	case k.at.IsZero():
		return "its statuses have not been read yet"
	case k.failed || now.Sub(k.at) > validFor:
		return "its statuses were last read at " + rollout.Stamp(k.at)
	}
	return ""
}

// at returns what is known of a commit.
func (s *Statuses) at(commit gitstore.Hash) knownStatuses {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.of[commit]
	k.why = s.why
	return k
}

// Reader returns a reader of the cached statuses at a time. It sends no request: a commit that the cache lacks, or
// whose statuses are too old, is an error of the type promotion.NotReadError.
func (s *Statuses) Reader(now time.Time) promote.StatusReader { return cachedStatuses{s, now} }

type cachedStatuses struct {
	cache *Statuses
	now   time.Time
}

// Statuses implements promotion.StatusReader.
func (c cachedStatuses) Statuses(_ context.Context, commit string) ([]rollout.Status, error) {
	hash, err := gitstore.ParseHash(commit)
	if err != nil {
		return nil, err
	}
	have := c.cache.at(hash)
	if why := have.unknown(c.now); why != "" {
		return nil, promote.NotReadError(why)
	}
	return have.list, nil
}

// health judges all clusters by the cached statuses, and marks commits whose clusters are all healthy.
func (b *reader) health() {
	b.reportedHealth()
	s := b.request.Posted
	if s == nil {
		return
	}
	healthy := map[gitstore.Hash]bool{}
	for _, c := range b.out.Clusters {
		gates := gatesOf(b.fleet, c.Environment.Name)
		if len(gates) == 0 || c.Tip.Hash.IsZero() || c.Environment.elsewhere() != nil {
			continue
		}
		c.Health = judge(gates, c, s.at(c.Tip.Hash), b.request.Now)
		before, twice := healthy[c.Tip.Hash]
		healthy[c.Tip.Hash] = c.Health.State == rollout.Green && (before || !twice)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for commit, is := range healthy {
		if k, ok := s.of[commit]; ok {
			k.healthy = is
			s.of[commit] = k
		}
	}
}

// healthGate is a health gate that judges the clusters of an environment.
type healthGate struct {
	environment string // that has the gate
	fleet.Health
}

// gatesOf lists the health gates that judge the clusters of an environment: its own, and those of all environments
// after it.
func gatesOf(f *fleet.Fleet, environment string) []healthGate {
	var out []healthGate
	for i := range f.Spec.Environments {
		e := &f.Spec.Environments[i]
		if len(e.Promotion.Health.CommitStatuses) > 0 && (e.Name == environment ||
			slices.Contains(e.After, environment)) {
			out = append(out, healthGate{e.Name, e.Promotion.Health})
		}
	}
	return out
}

// judge judges a cluster by each gate. The worst state counts.
func judge(gates []healthGate, c *Cluster, have knownStatuses, now time.Time) *Health {
	state := rollout.ClusterState{
		Cluster: rollout.Cluster{Name: c.Name}, Statuses: have.list,
		StatusesUnknown: have.unknown(now), Apps: []string{},
	}
	for _, p := range c.Apps {
		if !p.Tree.IsZero() {
			state.Apps = append(state.Apps, p.App.Name)
		}
	}
	out := &Health{Posted: have.list, Read: have.at}
	for i, g := range gates {
		one := rollout.HealthOf(g.Health, state)
		if i == 0 || severity(one.State) > severity(out.State) {
			out.State, out.Reason = one.State, one.Reason
			if len(gates) > 1 && one.Reason != "" && state.StatusesUnknown == "" {
				out.Reason = "health gate of " + g.environment + ": " + one.Reason
			}
		}
		for app, s := range one.Apps {
			if out.Apps == nil {
				out.Apps = map[string]rollout.State{}
			}
			if before, ok := out.Apps[app]; !ok || severity(s) > severity(before) {
				out.Apps[app] = s
			}
		}
		for _, s := range one.Named {
			if !slices.Contains(out.Named, s) {
				out.Named = append(out.Named, s)
			}
		}
	}
	return out
}

// severity orders states of health, the worst last.
func severity(s rollout.State) int {
	return slices.Index([]rollout.State{rollout.Green, rollout.Waiting, rollout.Unknown, rollout.Red}, s)
}

// State returns a digest of what changes without a move of a branch: health, gates, waves, windows and problems.
func (f *Fleet) State() string {
	sum := sha256.New()
	for _, c := range f.Clusters {
		fmt.Fprintf(sum, "%q %q %q\n", c.Name, c.Dot(), c.Look())
		if h := c.Health; h != nil {
			fmt.Fprintf(sum, "%q %q %q %q\n", h.State, h.Reason, h.Apps, h.Named) // fmt sorts maps
		}
	}
	for _, e := range f.Environments {
		fmt.Fprintf(sum, "%q %t %q\n", e.Name, e.Open, e.OpenWhy)
		for _, w := range e.Waves {
			fmt.Fprintf(sum, "%q %q %q\n", w.Name, w.State, w.Reason)
		}
		if e.Status == nil {
			continue
		}
		for _, g := range slices.Concat(e.Status.Decision.Gates, e.Status.Decision.WaveGates) {
			fmt.Fprintf(sum, "%q %q %q\n", g.Name, g.State, g.Reason)
		}
	}
	fmt.Fprintf(sum, "%q %q", f.Problems, f.Warnings)
	return hex.EncodeToString(sum.Sum(nil))
}

// healthCount is the number of clusters, or of placements of an app, by their health.
type healthCount struct{ Red, Waiting, Unknown, Green int }

func (h *healthCount) add(s rollout.State) {
	switch s {
	case rollout.Red:
		h.Red++
	case rollout.Waiting:
		h.Waiting++
	case rollout.Green:
		h.Green++
	default:
		h.Unknown++
	}
}

// addOf adds the health of an app on a cluster, if statuses say it.
func (h *healthCount) addOf(p *Placed) {
	if p.Cluster.Health == nil || p.Cluster.Health.Apps == nil {
		return
	}
	h.add(p.Cluster.Health.Apps[p.App.Name]) // one that is not on the branch yet is unknown
}

// healthOf counts the clusters of an environment whose health is judged.
func healthOf(clusters []*Cluster) healthCount {
	var out healthCount
	for _, c := range clusters {
		if c.Health != nil {
			out.add(c.Health.State)
		}
	}
	return out
}

// Badges are the words of a count with their classes: what is not green, or that everything is.
func (h healthCount) Badges() []verdict {
	var out []verdict
	add := func(n int, word, class string) {
		if n > 0 {
			out = append(out, verdict{Word: fmt.Sprintf("%s %s", number(n), word), Class: class})
		}
	}
	add(h.Red, "unhealthy", "bad")
	add(h.Waiting, "in progress", "move")
	add(h.Unknown, "of unknown health", "none")
	if len(out) == 0 && h.Green > 0 {
		out = append(out, verdict{Word: "healthy", Class: "ok"})
	}
	return out
}

// healthWord is the state of a cluster or an app in a word, with its class.
func healthWord(s rollout.State) verdict {
	switch s {
	case rollout.Green:
		return verdict{Word: "healthy", Class: "ok"}
	case rollout.Red:
		return verdict{Word: "unhealthy", Class: "bad"}
	case rollout.Waiting:
		return verdict{Word: "in progress", Class: "move"}
	}
	return verdict{Word: "unknown", Class: "none"}
}

// appHealth is the health of an app on a cluster; nil if nothing says it.
func appHealth(p *Placed) *verdict {
	if p.Cluster.Health == nil {
		return nil
	}
	s, ok := p.Cluster.Health.Apps[p.App.Name]
	if !ok {
		return nil
	}
	w := healthWord(s)
	return &w
}
