package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// trunk is the tree of the trunk's tip. It alone says where branches are: another branch may be one that anybody may push to.
func (w *workspace) trunk(ctx context.Context) (gitstore.Hash, error) {
	tip, err := w.Revision(ctx, "HEAD")
	if err != nil {
		return gitstore.Hash{}, err
	}
	if f, _, err := w.Fleet(ctx, tip.Tree); err == nil && f.Spec.Trunk != "" {
		if trunk, err := w.Revision(ctx, "refs/heads/"+f.Spec.Trunk); err == nil {
			tip = trunk
		}
	}
	if good, _, err := w.Readable(ctx, tip); err == nil { // a mistake on the trunk must not make branches go elsewhere
		tip = good
	}
	return tip.Tree, nil
}

// Output implements bot.Workspace.
func (w *workspace) Output(ctx context.Context) (forge.Repository, error) {
	tree, err := w.trunk(ctx)
	if err != nil {
		return w.place.Repo(), err
	}
	return w.outputOf(ctx, tree)
}

// outputOf is the repository on the forge whose credential writes the branches of a fleet. A fleet's file names a repository, and
// must not make the service write where its operator did not let it.
func (w *workspace) outputOf(ctx context.Context, tree gitstore.Hash) (forge.Repository, error) {
	f, _, err := w.Fleet(ctx, tree)
	if _, broken := errors.AsType[fleet.Problems](err); err != nil && !broken {
		return w.place.Repo(), err
	}
	if f == nil || f.Spec.Output.Repository == "" {
		return w.place.Repo(), nil
	}
	return w.forge.output(w.place.Repo(), f.Spec.Output.Repository)
}

// output finds a repository among those that the configuration lets branches go to. One that is elsewhere is not on the forge: then
// it is the source that is given back.
func (f *configured) output(source forge.Repository, address string) (forge.Repository, error) {
	if name, ok := pathBelow(f.Git, address); ok && (f.Has(name) || f.Outputs.Path(name)) {
		return forge.Repository{Path: name}, nil
	}
	if f.Outputs.Address(address) {
		return source, nil
	}
	return source, fmt.Errorf("%w: spec.output.repository is %q, which is neither among the repositories nor among the outputs of the forge %s in the service's configuration",
		bot.ErrRefused, address, f.Name)
}

// pathBelow is the path of a repository below a forge's address, of a URL that says it plainly.
func pathBelow(base, address string) (string, bool) {
	b, err := url.Parse(base)
	if err != nil {
		return "", false
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != b.Scheme || !strings.EqualFold(u.Host, b.Host) || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.RawPath != "" {
		return "", false
	}
	name, ok := strings.CutPrefix(u.Path, strings.TrimSuffix(b.Path, "/")+"/")
	name = strings.TrimSuffix(name, ".git")
	return name, ok && name == path.Clean(name) && !strings.HasPrefix(name, "/") && name != "." && !strings.HasPrefix(name, "..")
}

// outputAuth is the credential of an output repository: its own, on the host that it is for, or the source's if both are on one
// host. A fleet's file must not be able to send a credential elsewhere.
func (e Environment) outputAuth(output, source string) (gitstore.Auth, error) {
	const prefix = "SLUICE_OUTPUT_GIT_"
	host := e.Getenv(prefix + "HOST")
	for _, name := range []string{"USERNAME", "PASSWORD", "TOKEN"} {
		if e.Getenv(prefix+name) == "" {
			continue
		}
		if host == "" {
			return gitstore.Auth{}, fmt.Errorf("%s%s needs %sHOST, the host that it is for: a fleet's file must not choose who gets a credential", prefix, name, prefix)
		}
		if !strings.Contains(host, "://") {
			host = "https://" + host
		}
		if strings.EqualFold(hostOf(output), hostOf(host)) {
			return e.authFrom(prefix), nil
		}
	}
	a := e.auth()
	if x, y := hostOf(output), hostOf(source); x != "" && x == y {
		return a, nil
	}
	a.User, a.Password, a.Token = "", "", ""
	return a, nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
