package service

import (
	"context"
	"errors"
	"strings"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/queue"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/service/reviews"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/server"
)

// newReports returns what keeps the reports of merge requests; nil without pages.
func newReports(s *Service) bot.Reports {
	if s.reviews == nil {
		return nil
	}
	return reportKeeper{s.reviews, strings.TrimSuffix(s.initial.Pages.Address, "/"), s.initial.Pages.Auth.Forge.Name}
}

// shareReports has the replicas of the service share reports, unless the configuration keeps content out of the NATS
// cluster.
func shareReports(s *Service) {
	if share := s.initial.Queue.Reports; s.reviews != nil && (share == nil || *share) {
		s.reviews.Share(queue.NewReports(s.queue))
	}
}

// followReports lists what other replicas review, until ctx ends.
func followReports(ctx context.Context, s *Service) error {
	if s.reviews == nil {
		return nil
	}
	return s.reviews.Follow(ctx, func(name string, err error) {
		s.log.Warn("a list of reviewed heads is not exchanged with the other replicas", "list", name, "error", err)
	})
}

// reportKeeper adds the addresses of pages to a store. It implements bot.Reports.
type reportKeeper struct {
	*reviews.Store
	address string // of the pages; "" if people elsewhere cannot open them
	// where people sign in, who see only its repositories; "" if people see the repositories of all forges
	forge string
}

// Keep implements bot.Reports.
func (k reportKeeper) Keep(p, fleet hint.Place, mr *forge.MergeRequest, r *report.Review) (string, error) {
	h := server.Head{Fleet: repositoryOf(fleet), Repository: repositoryOf(p), Number: mr.Number, Commit: r.Head}
	linked := *r
	linked.Links.Back = h.Back()
	stored, err := k.Store.Keep(p, fleet, mr, &linked)
	if !stored || k.address == "" || k.forge != "" && (p.Forge() != k.forge || fleet.Forge() != k.forge) {
		return "", err
	}
	return k.address + "/" + server.Escape(h.Path()), err
}

// repositoryOf is a place as addresses of pages have it.
func repositoryOf(p hint.Place) string { return strings.Replace(string(p), ":", "/", 1) }

// environmentPage returns the address at which people see an environment; "" if they cannot open the pages.
func (s *Service) environmentPage(p hint.Place, environment string) string {
	c := s.initial.Pages
	if c.Listen == "" || c.Address == "" || c.Auth.Forge.Name != "" && p.Forge() != c.Auth.Forge.Name {
		return ""
	}
	return strings.TrimSuffix(c.Address, "/") + "/" + server.Escape(repositoryOf(p)) + "/-/" +
		site.EnvironmentPath(environment)
}

// Report implements server.Source.
func (f fleetSource) Report(ctx context.Context, h server.Head) (*server.Report, error) {
	r, err := f.s.reviews.Report(ctx, placeOf(h.Repository), placeOf(h.Fleet), h.Number, h.Commit)
	if errors.Is(err, reviews.ErrNone) {
		return nil, server.ErrNoReport
	}
	if err != nil {
		return nil, err
	}
	out := &server.Report{Policy: r.Policy, Gzip: r.Gzip}
	for _, p := range r.Needs {
		out.Needs = append(out.Needs, repositoryOf(p))
	}
	return out, nil
}
