package service

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/service/announce"
	"github.com/sluice-gitops/sluice/service/config"
	"github.com/sluice-gitops/sluice/service/notify"
	"github.com/sluice-gitops/sluice/service/repository"
)

// Adapter is a connected forge.
type Adapter struct {
	forge.Forge
	// GitUser is the user name that goes with an access token in Git's HTTP authentication.
	GitUser string
	// AppToken returns the token of a GitHub App's installation; nil if the configuration has a token.
	AppToken func(ctx context.Context, repo forge.Repository) (string, error)
	// Deliveries lists failed webhooks; nil if the forge keeps no record of them.
	Deliveries forge.Deliveries
}

// Connect creates the adapter of a configured forge.
type Connect func(f config.Forge, transport http.RoundTripper, clock func() time.Time) (Adapter, error)

// connected is a configured forge with its adapter.
type connected struct {
	config.Forge
	Adapter  Adapter
	notifies http.RoundTripper // transport for notifications to receivers
}

func (s *Service) connect(f config.Forge) (*connected, error) {
	guard, err := receiverGuard(f.Receivers, s.initial.Network.Allow)
	if err != nil {
		return nil, err
	}
	a, err := s.o.Connect(f, s.metrics.transport(f.Name, s.o.Transport, s.log, s.clock), s.clock)
	return &connected{Forge: f, Adapter: a, notifies: guard.Transport()}, err
}

// receiverGuard allows the hosts of receivers in the configuration. If the host contains a reference such as
// ${cluster.name}, the fleet decides it; such a host must be public, or in network.allow.
func receiverGuard(list []config.Receiver, allow []string) (*fetch.Guard, error) {
	allow = slices.Clone(allow)
	for _, r := range list {
		if u, err := url.Parse(r.URL); err == nil && !strings.Contains(u.Host, "$") {
			allow = append(allow, u.Host)
		}
	}
	return fetch.NewGuard(allow...)
}

// forge returns the adapter of a forge for the bot.
func (s *Service) forge(name string) (bot.Forge, bool) {
	f := s.state().forges[name]
	if f == nil {
		return nil, false
	}
	return f.Adapter.Forge, true // the adapter itself, whose roles beyond forge.Forge the bot looks for
}

// open opens a repository for the bot.
func (s *Service) open(ctx context.Context, p hint.Place) (*bot.Workspace, error) {
	w, err := s.session(ctx, p)
	if err != nil {
		return nil, err
	}
	return &bot.Workspace{
		Commits: w, Fleets: repository.Fleets{Session: w}, Reviews: repository.Reviews{Session: w},
		Triage: w, Branches: repository.Branches{Session: w}, Environments: w,
		Questions: w, Follows: w.Follower(), Artifacts: w, Close: w.Close,
	}, nil
}

// session opens a repository.
func (s *Service) session(ctx context.Context, p hint.Place) (*repository.Session, error) {
	state := s.state()
	f := state.forges[p.Forge()]
	if f == nil || !f.Has(p.Repo().Path) { // such as a fleet that was removed from the configuration
		return nil, fmt.Errorf("%s: %w", p, bot.ErrUnknownForge)
	}
	c := s.sessions
	c.Signer = state.signer
	return c.Open(ctx, repository.Repository{
		Place: p, URL: f.Git + "/" + p.Repo().Path + ".git", Forge: f.Adapter, PerPush: f.For(p.Repo().Path).PerPush,
		Credential: s.credential(f), Announce: s.announce(f, p),
		Protection: f.protection(p.Repo().Path),
		Output:     func(address string) (forge.Repository, bool, error) { return f.output(p.Repo(), address) },
		Publishes:  f.Outputs.Address,
	})
}

// protection returns the role that reports which branches of a repository are protected. It returns nil if the
// configuration does not require protection.
func (f *connected) protection(repository string) forge.Protection {
	if f.For(repository).BranchProtection == config.ProtectionOff {
		return nil
	}
	if p, ok := f.Adapter.Forge.(forge.Protection); ok {
		return p
	}
	return noProtection{}
}

// noProtection is the protection of a forge whose adapter cannot report it.
type noProtection struct{}

// Protected implements forge.Protection.
func (noProtection) Protected(context.Context, forge.Repository, string) (bool, error) {
	return false, forge.ErrUnsupported
}

// credential returns the credential of a forge, for pushing or for reading.
func (s *Service) credential(f *connected) func(ctx context.Context, repo forge.Repository, push bool) (gitstore.Auth,
	error) {
	return func(ctx context.Context, repo forge.Repository, push bool) (gitstore.Auth, error) {
		secret := f.GitToken
		if push && f.PushToken.Set() {
			secret = f.PushToken
		}
		auth := s.o.Runtime.Git
		auth.User, auth.Password = f.Adapter.GitUser, ""
		auth.Token = string(secret.Bytes())
		if auth.Token == "" {
			auth.Token = string(f.Token.Bytes())
		}
		if auth.Token == "" && f.Adapter.AppToken != nil {
			var err error
			if auth.Token, err = f.Adapter.AppToken(ctx, repo); err != nil {
				return gitstore.Auth{}, err
			}
		}
		return auth, nil
	}
}

// announce returns a function that notifies the receivers of a repository; nil if it has none.
func (s *Service) announce(f *connected, p hint.Place) announce.Func {
	var list []config.Receiver
	for _, r := range f.Receivers {
		if r.Concerns(p.Repo().Path) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return nil
	}
	n := NewNotifier(list, s.o.Runtime.Version, f.notifies)
	n.PlainHTTP = s.o.Runtime.Git.PlainHTTP
	return func(ctx context.Context, repository string, moves []notify.Move) { s.notify(ctx, n, repository, moves) }
}

// NewNotifier returns a notifier of configured receivers. A nil transport is the default one.
func NewNotifier(list []config.Receiver, version string, transport http.RoundTripper) *notify.Notifier {
	client := notify.NewClient()
	client.Transport = transport
	n := &notify.Notifier{Client: client, UserAgent: "sluice/" + version, Wait: time.Second}
	for _, r := range list {
		n.Receivers = append(n.Receivers, notify.Receiver{
			Kind: notify.Kind(r.Kind), URL: r.URL,
			Secret: r.Secret.Bytes(), Clusters: r.Clusters,
		})
	}
	return n
}

// notify notifies receivers in the background.
func (s *Service) notify(ctx context.Context, n *notify.Notifier, repository string, moves []notify.Move) {
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err := n.Notify(ctx, repository, moves)
		s.metrics.notified.WithLabelValues(resultOf(err)).Inc()
		if err != nil {
			s.log.Warn("some receivers were not notified: they see the new commits at their next poll", "repository",
				repository, "error", err)
		}
	})
}

// defaultPreviewCap is the default limit of targets in a preview.
const defaultPreviewCap = 2000

// settings returns the settings of a repository for the bot.
func (s *Service) settings(p hint.Place) bot.Settings {
	f := s.state().forges[p.Forge()]
	if f == nil {
		return bot.Settings{}
	}
	c := f.For(p.Repo().Path)
	or := func(b *bool, fallback bool) bool {
		if b == nil {
			return fallback
		}
		return *b
	}
	out := bot.Settings{
		Context: c.Context, Drafts: or(c.Drafts, true), Labels: c.Labels, SkipLabels: c.SkipLabels,
		Previews:   or(c.Previews, true),
		PreviewCap: c.PreviewCap, PerPush: c.PerPush, Checks: or(c.Checks, f.App.ID != 0),
		Deployments: or(c.Deployments, false),
	}
	if out.Context == "" {
		out.Context = "sluice"
	}
	if out.PreviewCap == 0 {
		out.PreviewCap = defaultPreviewCap
	}
	return out
}

// output returns the repository of an address in spec.output.repository if the configuration allows branches there. A
// fleet file must not make the service write to a repository that its operator did not allow. For an allowed address
// that is not on the forge, output returns the source, and onForge is false.
func (f *connected) output(source forge.Repository, address string) (repo forge.Repository, onForge bool, err error) {
	if name, ok := pathBelow(f.Git, address); ok && (f.Has(name) || f.Outputs.Path(name)) {
		return forge.Repository{Path: name}, true, nil
	}
	if f.Outputs.Address(address) {
		return source, false, nil
	}
	return source, false, fmt.Errorf("%w: spec.output.repository is %q, which is neither among the repositories nor among the outputs of the forge %s in the service's configuration",
		bot.ErrRefused, address, f.Name)
}

// addressed returns the repository of a configured forge that an address names, over HTTP or SSH. Forges ignore the
// case of paths; the place has the spelling of the configuration as far as its patterns have one, and otherwise that of
// the address.
func addressed(forges map[string]*connected, address string) (hint.Place, bool) {
	for _, name := range slices.Sorted(maps.Keys(forges)) {
		f := forges[name]
		if repo, ok := giturl.Below(f.Git, address); ok {
			if spelled, ok := f.spelled(repo); ok {
				return hint.NewPlace(name, spelled), true
			}
		}
	}
	return "", false
}

// spelled returns a repository in the spelling of a pattern that matches it; false if none does, whatever its case is.
func (f *connected) spelled(repo string) (string, bool) {
	if f.Has(repo) {
		return repo, true
	}
	for _, pattern := range f.Repositories {
		segments := strings.Split(repo, "/")
		for i, p := range strings.Split(pattern, "/") {
			if i >= len(segments) || p == "**" {
				break
			}
			lower := strings.ToLower(segments[i])
			if strings.EqualFold(p, lower) {
				segments[i] = p
			} else if same, _ := path.Match(p, segments[i]); !same {
				segments[i] = lower
			}
		}
		one := config.Forge{Repositories: []string{pattern}}
		if out := strings.Join(segments, "/"); one.Has(out) {
			return out, true
		}
	}
	return "", false
}

// pathBelow returns the path of a repository below the address of a forge. It accepts only plain URLs.
func pathBelow(base, address string) (string, bool) {
	b, err := url.Parse(base)
	if err != nil {
		return "", false
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != b.Scheme || !strings.EqualFold(u.Host, b.Host) || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" || u.RawPath != "" {
		return "", false
	}
	name, ok := strings.CutPrefix(u.Path, strings.TrimSuffix(b.Path, "/")+"/")
	name = strings.TrimSuffix(name, ".git")
	return name, ok && name == path.Clean(name) && !strings.HasPrefix(name, "/") && name != "." &&
		!strings.HasPrefix(name, "..")
}
