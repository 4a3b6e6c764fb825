package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/giturl"
)

// GitCommit is a commit of another repository that an object of another tool, or a kustomization, names by its whole id.
// The id is a digest of the content, so the commit needs no entry in sluice.lock.
type GitCommit struct {
	URL    string // https, http or ssh, without a password
	Commit string // 40 hexadecimal digits
	// Nested says that only the content of another such commit names it. Its owner need not be that of the fleet, so it
	// must not choose what the fleet's credentials read.
	Nested bool
}

// String names the commit for people.
func (c GitCommit) String() string { return fmt.Sprintf("%.7s of %s", c.Commit, c.URL) }

// Limits of the commits that one fleet pins exactly.
const (
	maxPinned  = 200
	maxRounds  = 8    // what a commit holds can name other commits
	maxAddress = 1024 // bytes
)

var errManyPinned = fmt.Errorf("the fleet pins more than %d commits of other repositories: declare them as kind: Repository",
	maxPinned)

var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Valid reports whether the commit can be fetched. What is invalid stays an error of its target.
func (c GitCommit) Valid() bool {
	return commitID.MatchString(c.Commit) && isRepositoryURL(c.URL) && !hasPassword(c.URL) && len(c.URL) <= maxAddress
}

// MountName is the name of the directory in MountDir for a commit that a kustomization names. No declared repository has
// it, and no commit that an import names.
func (c GitCommit) MountName() string {
	const enough = 4 // bytes
	address := sha256.Sum256([]byte(c.URL))
	return c.plainName() + "_" + hex.EncodeToString(address[:enough])
}

// plainName is a name that no declared repository has: no name of those has an underscore.
func (c GitCommit) plainName() string {
	base := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, path.Base(giturl.Key(c.URL)))
	const most = 40
	return strings.TrimLeft(base[:min(len(base), most)], "-.") + "_" + c.Commit
}

// mountName is the name of the directory in MountDir for a commit that an import names.
func (f *Fleet) mountName(c GitCommit) string {
	first := c.plainName()
	name := first
	for n := 2; slices.ContainsFunc(f.pinned, func(r *Repository) bool { return r.Name == name }); n++ {
		name = fmt.Sprintf("%s_%d", first, n) // another address of the same commit
	}
	return name
}

// Commits returns the commits of other repositories that objects of other tools pin exactly, in the order in which they
// were found. The content of some of them may be missing.
func (f *Fleet) Commits() []GitCommit { return f.commits }

// mountCommits adds the content of commits to the tree in which the fleet's paths are resolved. A commit that cannot be
// fetched counts as mounted: the importer learns why it is missing. nested is GitCommit.Nested of all of them.
// mountCommits returns false if there is nothing new.
func (l *loader) mountCommits(ctx context.Context, commits []GitCommit, nested bool) bool {
	f, grown := l.fleet, false
	for _, c := range commits {
		c.Nested = nested
		if !c.Valid() || slices.ContainsFunc(f.commits,
			func(k GitCommit) bool { return k.URL == c.URL && k.Commit == c.Commit }) {
			continue
		}
		if f.commits = append(f.commits, c); l.mounts == nil || !l.mounts.Exact() {
			continue
		}
		r := &Repository{Name: f.mountName(c), URL: c.URL, Wanted: c.Commit, Exact: true, Nested: c.Nested}
		if grown = true; len(f.pinned) >= maxPinned {
			f.unavailable[r.Name] = errManyPinned
		}
		f.pinned = append(f.pinned, r)
	}
	if !grown {
		return false
	}
	fetched := f.pinned[:min(len(f.pinned), maxPinned)]
	tree, missing := l.mounts.Mount(ctx, l.tree.Tree, slices.Concat(f.Repositories, fetched))
	f.tree = &linkTree{Tree: tree}
	maps.Copy(f.unavailable, missing)
	f.nameMounts()
	return true
}

// importEntry reads one entry of spec.import. It mounts the commits of other repositories that objects pin exactly, and
// reads the entry again with them.
func (l *loader) importEntry(ctx context.Context, entry Import) ([]Imported, Problems, error) {
	for round := 0; ; round++ {
		tree, request := l.tree, importRequest(l.fleet, entry)
		if entry.Flux != nil {
			request.Repositories = importRepositories(l.fleet, l.fleet.Repositories)
		}
		if round > 0 { // before, the entry's own files alone tell what it names
			request.Pinned = importRepositories(l.fleet, l.fleet.pinned)
		}
		if entry.Flux != nil || len(request.Pinned) > 0 {
			tree = l.fleet.tree
		}
		targets, problems, err := l.importer.Import(ctx, tree.watched(), request)
		if err != nil {
			return nil, nil, err
		}
		var lacking []GitCommit
		for i := range targets {
			lacking = append(lacking, targets[i].Lacks...)
		}
		again := l.mountCommits(ctx, lacking, round > 0) || round == 0 && len(l.fleet.pinned) > 0
		if round == maxRounds || !again {
			return targets, problems, nil
		}
	}
}
