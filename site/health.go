package site

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// Health is what the commit statuses on the tip of a cluster's branch say, as the health gate judges them.
type Health struct {
	promote.ClusterHealth

	Posted []promote.Status // all statuses of the commit
	Read   time.Time        // when; zero if they could not be read yet
}

// Synced reports whether something in the cluster has posted a status of the tip.
func (h *Health) Synced() bool { return len(h.Posted) > 0 }

const (
	statusReads = 30               // commits whose statuses are asked for in a minute, however often a fleet is read: a forge limits requests
	readersOnce = 8                // requests at the same time
	settledFor  = 10 * time.Minute // statuses that are all successes are used without another request
	movingFor   = time.Minute      // others
)

// statuses are those of the tips of cluster branches, which later Reads use while they are fresh.
type statuses struct {
	of    map[gitstore.Hash]knownStatuses
	since time.Time // beginning of the minute in which asked counts
	asked int       // commits
}

// left is the number of commits that may be asked for.
func (s *statuses) left(now time.Time) int {
	if now.Sub(s.since) >= time.Minute || now.Before(s.since) {
		s.since, s.asked = now, 0
	}
	return statusReads - s.asked
}

type knownStatuses struct {
	list []promote.Status
	at   time.Time
}

func (k knownStatuses) fresh(now time.Time) bool {
	if k.at.IsZero() {
		return false
	}
	settled := len(k.list) > 0 && !slices.ContainsFunc(k.list, func(s promote.Status) bool { return s.State != "success" })
	if settled {
		return now.Sub(k.at) < settledFor
	}
	return now.Sub(k.at) < movingFor
}

// health reads the statuses of all clusters whose environment, or one that takes commits from it, has a health gate.
func (b *reader) health() error {
	if b.request.Reader == nil {
		return nil
	}
	var earlier statuses
	if b.request.Earlier != nil {
		earlier = b.request.Earlier.statuses
	}
	known := statuses{of: map[gitstore.Hash]knownStatuses{}, since: earlier.since, asked: earlier.asked}
	var missing []gitstore.Hash
	for _, c := range b.out.Clusters {
		if len(b.healthOf(c).CommitStatuses) == 0 || c.Tip.Hash.IsZero() {
			continue
		}
		have := earlier.of[c.Tip.Hash]
		known.of[c.Tip.Hash] = have
		if !have.fresh(b.request.Now) {
			missing = append(missing, c.Tip.Hash)
		}
	}
	slices.SortStableFunc(missing, func(x, y gitstore.Hash) int { return known.of[x].at.Compare(known.of[y].at) }) // never read, then the oldest
	missing = slices.Compact(missing)
	missing = missing[:min(len(missing), known.left(b.request.Now))]
	known.asked += len(missing)
	if err := known.read(b.ctx, b.request.Reader, missing, b.request.Now); err != nil {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		b.note("the health of some clusters is not current: the forge does not answer: %s", firstLine(err))
	}
	b.out.statuses = known
	for _, c := range b.out.Clusters {
		h := b.healthOf(c)
		if len(h.CommitStatuses) > 0 && !c.Tip.Hash.IsZero() {
			c.Health = judge(h, c, known.of[c.Tip.Hash])
		}
	}
	return nil
}

func judge(h fleet.Health, c *Cluster, have knownStatuses) *Health {
	state := promote.ClusterState{Cluster: promote.Cluster{Name: c.Name}, Statuses: have.list, Apps: []string{}}
	if have.at.IsZero() {
		state.StatusesUnknown = "its statuses are not read yet"
	}
	for _, p := range c.Apps {
		if !p.Tree.IsZero() {
			state.Apps = append(state.Apps, p.App.Name)
		}
	}
	return &Health{ClusterHealth: promote.HealthOf(h, state), Posted: have.list, Read: have.at}
}

// healthOf returns the health gate that judges a cluster: of its environment, or of the first one that takes commits from it.
func (b *reader) healthOf(c *Cluster) fleet.Health {
	for i := range b.fleet.Spec.Environments {
		e := &b.fleet.Spec.Environments[i]
		if e.Name == c.Environment.Name && len(e.Promotion.Health.CommitStatuses) > 0 {
			return e.Promotion.Health
		}
	}
	for i := range b.fleet.Spec.Environments {
		e := &b.fleet.Spec.Environments[i]
		if slices.Contains(e.After, c.Environment.Name) && len(e.Promotion.Health.CommitStatuses) > 0 {
			return e.Promotion.Health
		}
	}
	return fleet.Health{}
}

// read asks for the statuses of commits. After an error it asks for no more of them; what was read stays.
func (s *statuses) read(ctx context.Context, from promotion.StatusReader, commits []gitstore.Hash, now time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readersOnce)
	var mu sync.Mutex
	for _, commit := range commits {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil // another request failed
			}
			list, err := from.Statuses(ctx, commit.String())
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			s.of[commit] = knownStatuses{list, now}
			return nil
		})
	}
	return group.Wait()
}

// healthCount is the number of clusters, or of placements of an app, by their health.
type healthCount struct{ Red, Waiting, Unknown, Green int }

func (h *healthCount) add(s promote.State) {
	switch s {
	case promote.Red:
		h.Red++
	case promote.Waiting:
		h.Waiting++
	case promote.Green:
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
func healthWord(s promote.State) verdict {
	switch s {
	case promote.Green:
		return verdict{Word: "healthy", Class: "ok"}
	case promote.Red:
		return verdict{Word: "unhealthy", Class: "bad"}
	case promote.Waiting:
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
