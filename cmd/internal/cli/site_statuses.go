package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/giturl"
	"github.com/sluice-gitops/sluice/service/promotions"
	"github.com/sluice-gitops/sluice/site"
)

// posted reads the commit statuses of the cluster branches, in a CI job of the fleet's repository with a token of its
// forge. Elsewhere the statuses say why they were not read. The problem says how many cluster branches were not read,
// or why.
func (s *siteOptions) posted(ctx context.Context, o IO, session *app.Session,
	trunk gitstore.Commit,
) (list *site.Statuses, problem string, err error) {
	f, _, err := session.Fleet(ctx, trunk.Tree)
	if err != nil {
		return nil, "", err
	}
	hub, repo, impossible := s.forge(o.Env, session, f.Spec.Output.Repository)
	if impossible != nil {
		//nolint:nilerr // the pages show it
		return site.NoStatuses("its statuses were not read: " + impossible.Error()), "", nil
	}
	list = site.NewStatuses(s.statuses, s.statuses)
	err = list.Refresh(ctx, session.Hydrator, trunk.Tree, promotions.Statuses{Forge: hub, Repository: repo},
		session.Runtime.Clock())
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	why, problem := unreadStatuses(list.Over(), s.statuses, err)
	list.NotRead(why)
	return list, problem, nil
}

// unreadStatuses says why the statuses of a cluster were not read, and what the pages warn of. over is the number of
// cluster branches above the limit, and err why others could not be read.
func unreadStatuses(over, limit int, err error) (why, problem string) {
	const not = "its statuses were not read: "
	switch {
	case err != nil && over > 0:
		return not + fmt.Sprintf("--statuses is %d, and the forge did not answer all requests", limit), cannotRead(err)
	case err != nil:
		return not + "the forge did not answer all requests", cannotRead(err)
	case over > 0:
		return not + fmt.Sprintf("--statuses is %d", limit),
			fmt.Sprintf("the statuses of %s were not read: --statuses is %d", hydrate.Count(over, "cluster branch"),
				limit)
	}
	return "", ""
}

func cannotRead(err error) string {
	return "the health of some clusters is unknown: cannot read commit statuses: " + err.Error()
}

// forge returns the forge of the CI job, and the repository on it that has the rendered branches. The error says why
// statuses cannot be read.
func (s *siteOptions) forge(env app.Environment, session *app.Session, output string) (app.Forge, forge.Repository,
	error,
) {
	if s.statuses == 0 {
		return nil, forge.Repository{}, errors.New("--statuses is 0")
	}
	// the event does not matter
	at, err := ci.Detect(env.Getenv, func(string) ([]byte, error) { return []byte("{}"), nil })
	if errors.Is(err, ci.ErrNoCI) {
		return nil, forge.Repository{},
			errors.New("sluice site reads them in GitHub Actions, GitLab CI, Gitea Actions and Woodpecker, with a token")
	}
	if err != nil {
		return nil, forge.Repository{}, err
	}
	address := ""
	if session.IsURL() {
		address = session.Store.RemoteURL()
	}
	path, err := placeOfBranches(at.Repository, address, output, at.ServerURL)
	if err != nil {
		return nil, forge.Repository{}, err
	}
	hub, err := env.StatusForge(at)
	return hub, forge.Repository{Path: path}, err
}

// placeOfBranches returns the path of the repository on a job's forge that has the rendered branches: the job's own, or
// the fleet's output repository. address is the repository that --repo names, "" for the job's checkout.
func placeOfBranches(own, address, output, server string) (string, error) {
	if path, ok := pathOn(server, address); address != "" && (!ok || !strings.EqualFold(path, own)) {
		return "", fmt.Errorf("the CI job belongs to %s, another repository", own)
	}
	if output == "" {
		return own, nil
	}
	path, ok := pathOn(server, output)
	if !ok {
		return "", fmt.Errorf("the output repository is not on %s, the forge of the CI job", giturl.Plain(server))
	}
	return path, nil
}

// pathOn returns the path of a repository on a forge. A GitLab server below a path has that path in its HTTP addresses,
// but not in those for SSH.
func pathOn(server, address string) (string, bool) {
	first, _, _ := strings.Cut(address, "/")
	if strings.HasPrefix(address, "ssh://") || !strings.Contains(address, "://") && strings.Contains(first, ":") {
		host, _, _ := strings.Cut(giturl.Plain(server), "/")
		server = "https://" + host
	}
	return giturl.Below(server, address)
}
