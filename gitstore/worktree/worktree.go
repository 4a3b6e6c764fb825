// Package worktree reads files that are not committed. It asks the git program of the user, so that ignore rules, Git
// LFS, line endings and sparse checkouts mean what they mean to `git add --all`.
//
// git writes its index and its objects into a temporary folder that is deleted before a function returns; new objects
// are then in the memory of the Store. Nothing is written to the repository, except what the user's own filters write:
// Git LFS stores the content of new files. Clean filters are the only programs that git may run here: hooks and the
// monitor of the file system are off.
//
// The package is for the checkout of the person or the job that runs the command line. The service and its workers read
// commits only, and do not import it.
//
// The package is not API: it can change in every release.
package worktree

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// ErrNoGit means that there is no git program.
var ErrNoGit = errors.New("git is needed to read files that are not committed, and it is not on the PATH (install it, or name a commit)")

// Tree returns the tree that `git add --all` would give the files of the store's working tree. Files that are ignored
// and not tracked are not in it, nor are other repositories in the working tree that are not submodules. For a store
// without a working tree it is the tree of the files in dir, which need not be in a repository. The store can read all
// objects of the tree.
func Tree(ctx context.Context, store *gitstore.Store, dir string) (gitstore.Hash, error) {
	g, err := newStaging(ctx, store, dir)
	if err != nil {
		return gitstore.Hash{}, err
	}
	defer g.remove()
	tree, err := g.tree()
	if err != nil || store.Has(tree) { // a tree that Git stored has all its objects
		return tree, err
	}
	return tree, g.load(store)
}

// Modified reports whether the files of the store's working tree differ from a tree.
func Modified(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) (bool, error) {
	g, err := newStaging(ctx, store, store.Worktree())
	if err != nil {
		return false, err
	}
	defer g.remove()
	now, err := g.tree()
	return now != tree, err
}

// staging is an index with its objects in a temporary folder.
type staging struct {
	ctx  context.Context //nolint:containedctx // one call
	top  string          // of the files
	temp string
	env  []string
}

func newStaging(ctx context.Context, store *gitstore.Store, dir string) (*staging, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, ErrNoGit
	}
	top := store.Worktree()
	inRepository := top != ""
	if !inRepository {
		top = dir
	}
	top, err := filepath.Abs(top)
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "sluice-worktree-")
	if err != nil {
		return nil, err
	}
	g := &staging{ctx: ctx, top: top, temp: temp}
	if inRepository {
		err = g.besideRepository()
	} else {
		err = g.ownRepository()
	}
	if err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

func (g *staging) remove() { _ = os.RemoveAll(g.temp) } // the system removes what is left

// besideRepository copies the index of the repository, and lets the temporary objects refer to those of the repository.
func (g *staging) besideRepository() error {
	// git finds the repository itself, because it then refuses one of another user, with the configuration in it.
	out, err := g.git(nil, "rev-parse", "--git-path", "index", "--git-path", "objects")
	if err != nil {
		return err
	}
	paths := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(paths) != 2 {
		return fmt.Errorf("git rev-parse printed %q, which are not the places of the index and of the objects", out)
	}
	for i, path := range paths {
		if !filepath.IsAbs(path) {
			paths[i] = filepath.Join(g.top, path)
		}
	}
	index, objects := filepath.Join(g.temp, "index"), filepath.Join(g.temp, "objects")
	if err := copyIndex(paths[0], index); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(objects, "info"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(objects, "info", "alternates"), []byte(paths[1]+"\n"), 0o600); err != nil {
		return err
	}
	g.env = []string{"GIT_INDEX_FILE=" + index, "GIT_OBJECT_DIRECTORY=" + objects}
	return nil
}

// copyIndex copies an index, if there is one, with its time: git reads a file again that may have changed after that
// time.
func copyIndex(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from) //nolint:gosec // the user's own repository
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, 0o600); err != nil { //nolint:gosec // a file of the temporary folder
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// ownRepository makes a repository for files that are in none.
func (g *staging) ownRepository() error {
	dir := filepath.Join(g.temp, "repository")
	if _, err := g.git(nil, "init", "--quiet", "--bare", "--template=", dir); err != nil {
		return err
	}
	g.env = []string{"GIT_DIR=" + dir, "GIT_WORK_TREE=" + g.top}
	return nil
}

// owns reports whether a file is one of the temporary folder, which is in the working tree if TMPDIR is.
func (g *staging) owns(name string) bool {
	inside, err := filepath.Rel(g.temp, filepath.Join(g.top, filepath.FromSlash(name)))
	return err == nil && filepath.IsLocal(inside)
}

// tree stages all files and returns their tree.
func (g *staging) tree() (gitstore.Hash, error) {
	if _, err := g.git(nil, "add", "--update", "--", "."); err != nil {
		return gitstore.Hash{}, err
	}
	out, err := g.git(nil, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return gitstore.Hash{}, err
	}
	var untracked []byte
	for name := range bytes.SplitSeq(out, []byte{0}) {
		// `git add --all` would add another repository as a submodule
		if len(name) > 0 && !g.owns(string(name)) && !bytes.HasSuffix(name, []byte("/")) {
			// git would copy it before the store refuses it. A file that vanished is git's to report.
			if info, err := os.Lstat(filepath.Join(g.top, string(name))); err == nil && info.Mode().IsRegular() &&
				info.Size() > gitstore.MaxObject {
				return gitstore.Hash{}, fmt.Errorf("%s: %w (list it in .gitignore)", name, gitstore.ErrTooLarge)
			}
			untracked = append(append(untracked, name...), 0)
		}
	}
	if len(untracked) > 0 {
		if _, err := g.git(untracked, "update-index", "--add", "--remove", "--replace", "-z", "--stdin"); err != nil {
			return gitstore.Hash{}, err
		}
	}
	if out, err = g.git(nil, "write-tree", "--missing-ok"); err != nil { // a partial clone lacks objects
		return gitstore.Hash{}, err
	}
	return gitstore.ParseHash(strings.TrimSpace(string(out)))
}

// load stores the new objects in the memory of a store.
func (g *staging) load(store *gitstore.Store) error {
	objects := filepath.Join(g.temp, "objects")
	// then git lists the new ones only; there is none for an own repository
	_ = os.Remove(filepath.Join(objects, "info", "alternates"))
	out, err := g.git(nil, "cat-file", "--batch", "--batch-all-objects", "--unordered")
	if err != nil {
		return err
	}
	r := bufio.NewReader(bytes.NewReader(out))
	for {
		line, err := r.ReadString('\n') // <name> <kind> <size>
		if errors.Is(err, io.EOF) && line == "" {
			return nil
		}
		head := strings.Fields(line)
		if err != nil || len(head) != 3 {
			return fmt.Errorf("git cat-file printed %q, which describes no object: %w", line,
				errors.Join(err, gitstore.ErrMalformed))
		}
		size, err := strconv.Atoi(head[2])
		if err != nil {
			return fmt.Errorf("git cat-file printed %q: %w", line, err)
		}
		data := make([]byte, size+1) // and a line feed
		if _, err := io.ReadFull(r, data); err != nil {
			return fmt.Errorf("read what git cat-file prints: %w", err)
		}
		if _, err := store.Keep(gitstore.Raw{Kind: head[1], Data: data[:size]}); err != nil {
			return fmt.Errorf("%s: %w", g.nameOf(head[0]), err)
		}
	}
}

// nameOf returns the name of a file that the index has with an object, or the name of the object.
func (g *staging) nameOf(object string) string {
	out, err := g.git(nil, "ls-files", "-z", "--stage")
	if err != nil {
		return "object " + object
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		if facts, name, ok := strings.Cut(line, "\t"); ok && strings.Contains(facts, object) {
			return filepath.Join(g.top, filepath.FromSlash(name))
		}
	}
	return "object " + object
}

// options of every call: no program runs except filters, nothing is written to the repository, and no time is spent on
// the compression of objects that are deleted soon.
func options() []string {
	var out []string
	for _, setting := range []string{
		"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.untrackedCache=false", "core.splitIndex=false",
		"core.safecrlf=false",
		"core.compression=0", "core.fsync=none", "gc.auto=0", "maintenance.auto=false",
	} {
		out = append(out, "-c", setting)
	}
	return out
}

// git runs the git program at the top of the files, and returns what it prints. It never fetches: git before 2.45
// ignores GIT_NO_LAZY_FETCH, so that no protocol is allowed either.
func (g *staging) git(input []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(g.ctx, "git", append(options(), args...)...) //nolint:gosec // fixed words
	cmd.Dir, cmd.Stdin = g.top, bytes.NewReader(input)
	cmd.Env = append(userEnvironment(cmd.Environ()), "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0", "GIT_LITERAL_PATHSPECS=1", "LC_ALL=C")
	cmd.Env = append(cmd.Env, g.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx := g.ctx.Err(); ctx != nil {
		return nil, ctx
	}
	if err != nil {
		const chars = 500
		return nil, fmt.Errorf("read the files of %s: git %s: %w: %s", g.top, args[0], err,
			safetext.Message(stderr.String(), 1, chars))
	}
	return out, nil
}

// userEnvironment removes the variables by which git finds a repository. A hook has them, for the repository of the
// hook.
func userEnvironment(all []string) []string {
	var out []string
	for _, variable := range all {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES",
			"GIT_PREFIX", "GIT_NAMESPACE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE",
			"GIT_CEILING_DIRECTORIES",
			"GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS":
		default:
			out = append(out, variable)
		}
	}
	return out
}
