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

// HomeName is the environment before that of a site: what bundles brought. A fleet of the site declares it, without clusters.
const HomeName = "home"

// Prefixes are the prefixes of the branches that Site and AtHome read, beside those of the fleet's outputs: none in a fleet that
// no site has.
func Prefixes(f *fleet.Fleet) []string {
	if slices.ContainsFunc(f.Spec.Environments, func(e fleet.Environment) bool { return declared(f, e) }) {
		return []string{Prefix, LogBranch}
	}
	return nil
}

// declared reports whether a fleet says of an environment that bundles can bring it: it is isolated in the fleet of home, and
// after HomeName, which has no clusters, in a fleet of the site.
func declared(f *fleet.Fleet, e fleet.Environment) bool {
	return e.Isolated != nil || len(e.After) == 1 && isHome(f, e.After[0])
}

func isHome(f *fleet.Fleet, environment string) bool {
	return environment == HomeName && len(f.ClustersOf(environment)) == 0
}

// Declared refuses an environment of which the fleet does not say that bundles bring it: promotions would not take them.
func Declared(f *fleet.Fleet, environment string) error {
	if e, ok := f.Environment(environment); !ok || !declared(f, *e) {
		return fmt.Errorf("%s of this site does not say that bundles bring %s: declare the environments %s, without clusters, and %[2]s with `after: [%[3]s]`",
			fleet.File, environment, HomeName)
	}
	return nil
}

// Site reports whether the repository with these branches is the site of an environment. Whoever may push a branch below
// Prefix must not decide that: the fleet must say that bundles can bring the environment, the repository must not export bundles,
// and it must not have the environments before it, which home has. refs has the branches of the fleet's environments and those
// with Prefixes.
func Site(f *fleet.Fleet, environment string, refs map[string]gitstore.Hash) bool {
	return isSite(f, environment, refs, len(f.Spec.Environments))
}

// isSite looks at most at a number of environments, since those of a damaged fleet can come after each other in a circle.
func isSite(f *fleet.Fleet, environment string, refs map[string]gitstore.Hash, most int) bool {
	e, ok := f.Environment(environment)
	if !ok || most == 0 || !declared(f, *e) || refs[Branch(environment)].IsZero() || !refs[LogBranch].IsZero() {
		return false
	}
	return !slices.ContainsFunc(e.After, func(before string) bool {
		return !isHome(f, before) && !refs[f.EnvironmentBranch(before)].IsZero() && !isSite(f, before, refs, most-1)
	})
}

// AtHome returns the environment whose site the repository with these branches is, if another environment belongs to home:
// the fleet is home's, because it declares the site's environment as isolated, and the other environment has no branch here; or
// the other environment is HomeName.
// Without that last condition, whoever may push a branch to a new home could stop its environments. It returns "" for every
// environment that is to be written here. refs are those of Site.
func AtHome(f *fleet.Fleet, environment string, refs map[string]gitstore.Hash) string {
	if Site(f, environment, refs) || !refs[f.EnvironmentBranch(environment)].IsZero() {
		return ""
	}
	for _, e := range f.Spec.Environments {
		if (e.Isolated != nil || isHome(f, environment)) && Site(f, e.Name, refs) {
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
	Before       gitstore.Hash // the import before, also of First; zero if there is none
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
	n := len(c.Parents)
	home := (n == 1 || n == 2) && c.Parents[n-1] == out.Home
	if n > 1 {
		out.Before = c.Parents[0]
	}
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
		if at = one.Before; one.First {
			at = gitstore.Hash{}
		}
	}
	return out, nil
}
