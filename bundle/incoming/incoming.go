// Package incoming reads and describes the branch on which a site keeps what transfer bundles brought for an
// environment: sluice/incoming/<environment>.
//
// Each import adds one commit to the branch. The commit has the tree of home's environment branch. Its first parent is the
// import before; its last parent is home's commit, which keeps home's history reachable. Trailers name the bundle. An import
// only proposes: promotions at the site take their candidates from the branch (see package promote), and receipts report its
// tip.
//
// The package is not API: it can change in every release.
package incoming

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// Prefix begins the names of the branches.
const Prefix = "sluice/incoming/"

// LogBranch is the branch on which home numbers the bundles that it exports. A repository that has it is no site.
const LogBranch = "sluice/bundles"

// Trailers of an import.
const (
	TrailerSequence = "Sluice-Bundle"
	TrailerDigest   = "Sluice-Bundle-Digest"
	TrailerHome     = "Sluice-Bundle-Tip"   // home's commit
	TrailerFirst    = "Sluice-Bundle-First" // "true": see Import.First
)

// Branch returns the branch of an environment.
func Branch(environment string) string { return Prefix + environment }

// Prefixes are the prefixes of the branches that AtHome reads: none in a fleet without isolated environments.
func Prefixes(f *fleet.Fleet) []string {
	if slices.ContainsFunc(f.Spec.Environments, func(e fleet.Environment) bool { return e.Isolated != nil }) {
		return []string{Prefix, LogBranch}
	}
	return nil
}

// AtHome returns the environment whose site the repository with these branches is, if another environment belongs to home:
// the fleet is home's, because it declares the site's environment as isolated, and the other environment has no branch here.
// Without that last condition, whoever may push a branch to home could stop its environments. It returns "" for every
// environment that is to be written here.
func AtHome(f *fleet.Fleet, environment string, refs map[string]gitstore.Hash) string {
	if !refs[LogBranch].IsZero() || !refs[Branch(environment)].IsZero() || !refs[f.EnvironmentBranch(environment)].IsZero() {
		return ""
	}
	for _, e := range f.Spec.Environments {
		if e.Isolated != nil && !refs[Branch(e.Name)].IsZero() {
			return e.Name
		}
	}
	return ""
}

// Import is one bundle that a site imported.
type Import struct {
	Environment string
	Sequence    int64         // of the bundle
	Digest      string        // of the bundle's manifest
	Home        gitstore.Hash // tip of home's environment branch
	At          time.Time     // when it was imported, by the clock of the site
	// First says that no import before it counts: it signs what was not signed. The commits before it stay its ancestors.
	First bool

	Commit, Tree gitstore.Hash // of the branch
}

// Trailers returns the trailers that Parse reads.
func (i Import) Trailers() []gitstore.Trailer {
	out := []gitstore.Trailer{
		{Key: branch.TrailerEnvironment, Value: i.Environment},
		{Key: TrailerSequence, Value: strconv.FormatInt(i.Sequence, 10)},
		{Key: TrailerDigest, Value: i.Digest},
		{Key: TrailerHome, Value: i.Home.String()},
	}
	if i.First {
		out = append(out, gitstore.Trailer{Key: TrailerFirst, Value: "true"})
	}
	return out
}

// Parse reads the trailers of a commit of the branch. It refuses a commit that is no import for the environment, since
// whoever may push can write anything to the branch.
func Parse(c gitstore.Commit, environment string) (Import, error) {
	trailer := func(key string) string { return branch.Trailer(c.Message, key) }
	out := Import{
		Environment: environment, Digest: trailer(TrailerDigest),
		At: c.Committer.When, First: trailer(TrailerFirst) != "", Commit: c.Hash, Tree: c.Tree,
	}
	var err error
	out.Sequence, err = strconv.ParseInt(trailer(TrailerSequence), 10, 64)
	if err == nil {
		out.Home, err = gitstore.ParseHash(trailer(TrailerHome))
	}
	home := len(c.Parents) > 0 && c.Parents[len(c.Parents)-1] == out.Home
	if err != nil || out.Sequence < 1 || digest.SHA256.Validate(out.Digest) != nil || !home ||
		trailer(branch.TrailerEnvironment) != environment {
		return Import{}, fmt.Errorf("branch %s: commit %s by %s is not an import of a bundle for %s", Branch(environment), c.Hash.Short(),
			c.Author.Name, environment)
	}
	return out, nil
}

// History returns the imports of a branch that count, the newest first, at most a number. It is an error if one of them
// is no import.
func History(ctx context.Context, store *gitstore.Store, environment string, tip gitstore.Hash, most int) ([]Import, error) {
	var out []Import
	for at := tip; len(out) < most && !at.IsZero(); {
		c, err := store.Commit(ctx, at)
		if err != nil {
			return nil, err
		}
		one, err := Parse(c, environment)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
		if at = (gitstore.Hash{}); len(c.Parents) > 1 && !one.First { // the first import has home's commit only
			at = c.Parents[0]
		}
	}
	return out, nil
}
