package fetch

import (
	"context"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Offers are the versions of a chart that a repository or registry has now.
type Offers struct {
	InRange string // the newest version that Ref.Version accepts; "" if there is none
	Newest  string // the newest stable version; without one, the newest pre-release
}

// Offers asks the network which versions of a chart exist. It downloads no archive. Errors are those of Resolve.
func (f *Fetcher) Offers(ctx context.Context, r Ref) (Offers, error) {
	where, err := r.place()
	if err != nil {
		return Offers{}, wrap(r, err)
	}
	want, err := r.wanted(where)
	if err != nil {
		return Offers{}, wrap(r, err)
	}
	versions, err := f.list(ctx, where)
	if err != nil {
		return Offers{}, wrap(r, err)
	}
	var out Offers
	if i, ok := want.pick(versions); ok {
		out.InRange = versions[i]
	}
	for _, constraint := range []string{"*", ">=0.0.0-0"} {
		all, err := semver.NewConstraint(constraint)
		if err != nil {
			return Offers{}, wrap(r, err)
		}
		if i, ok := (wanted{text: constraint, rng: all}).pick(versions); ok {
			out.Newest = versions[i]
			break
		}
	}
	return out, nil
}

// list returns all versions of a chart, in the server's order.
func (f *Fetcher) list(ctx context.Context, where place) ([]string, error) {
	var out []string
	if where.oci != nil {
		tags, err := f.tags(ctx, *where.oci)
		if err != nil {
			return nil, err
		}
		for _, tag := range tags {
			version := strings.ReplaceAll(tag, "_", "+")
			if _, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v")); err == nil {
				out = append(out, version)
			}
		}
		return out, nil
	}
	a, err := f.opts.Credentials.forRepo(where.repo, f.base)
	if err != nil {
		return nil, err
	}
	entries, err := f.versions(ctx, where, a)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		out = append(out, e.Version)
	}
	return out, nil
}
