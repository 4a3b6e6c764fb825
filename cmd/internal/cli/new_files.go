package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/gitstore/worktree"
)

// newFiles writes files that do not exist yet into the working tree.
type newFiles struct {
	session *app.Session
	tree    gitstore.Hash // the working tree that gets the files
	root    *os.Root      // the working tree's folder
	files   map[string][]byte
	verb    string // for messages
	remedy  string // what to do if a file cannot be written
	out     io.Writer
	made    []string // files and folders, in the order in which they were created
}

// names are the files in the order in which they are written.
func (w *newFiles) names() []string { return slices.Sorted(maps.Keys(w.files)) }

// free refuses files that exist, and folders that lead elsewhere: a symbolic link can leave the repository, and Git
// does not follow it.
func (w *newFiles) free() error {
	for _, name := range w.names() {
		if _, err := w.root.Lstat(name); err == nil {
			return fmt.Errorf("%s exists (remove it, or %s)", name, w.remedy)
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if info, err := w.root.Lstat(dir); err == nil && !info.IsDir() {
				return fmt.Errorf("%s is not a directory, so %s cannot be written (%s)", dir, name, w.remedy)
			}
		}
	}
	return nil
}

func (w *newFiles) print() {
	for _, name := range w.names() {
		fmt.Fprintf(w.out, "--- %s\n%s", name, w.files[name])
	}
}

// write writes the files, and calls last if Git sees them. If a file cannot be written, or Git does not see the
// expected tree, or last fails, it removes what it has created.
func (w *newFiles) write(ctx context.Context, last func() error) (err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, name := range slices.Backward(w.made) {
			err = errors.Join(err, w.root.Remove(name))
		}
	}()
	for _, name := range w.names() {
		if err := w.create(name); err != nil {
			return err
		}
	}
	if err := w.seen(ctx); err != nil {
		return err
	}
	if err := last(); err != nil {
		return err
	}
	for _, name := range w.names() {
		fmt.Fprintf(w.out, "wrote %s\n", name)
	}
	return nil
}

// create writes one new file and the folders that it needs.
func (w *newFiles) create(name string) error {
	var missing []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := w.root.Lstat(dir); err == nil {
			break
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		if err := w.root.Mkdir(dir, 0o755); err != nil {
			return err
		}
		w.made = append(w.made, dir)
	}
	file, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	w.made = append(w.made, name)
	_, err = file.Write(w.files[name])
	return errors.Join(err, file.Close())
}

// seen reads the working tree again, and compares it with the expected one. Git can ignore a new file, and a file that
// was read before can change meanwhile.
func (w *newFiles) seen(ctx context.Context) error {
	store := w.session.Store
	now, err := worktree.Tree(ctx, store, w.root.Name())
	if err != nil {
		return err
	}
	trees, err := store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = trees.Close() }() // nothing in it is kept
	want, err := overlaid(ctx, store, trees, w.tree, w.files)
	if err != nil || want == now {
		return err
	}
	snapshot := store.Snapshot(ctx, now)
	for _, name := range w.names() {
		if data, err := snapshot.ReadFile(name); errors.Is(err, fs.ErrNotExist) ||
			err == nil && string(data) != string(w.files[name]) {
			return fmt.Errorf("git does not see %s, so a commit would lack it; nothing is written (change .gitignore, or %s)", name, w.remedy)
		}
	}
	return fmt.Errorf("files of the repository have changed while %s ran; nothing is written (run it again)", w.verb)
}

// overlaid returns a tree with files replaced or added.
func overlaid(ctx context.Context, store *gitstore.Store, w *gitstore.Writer, tree gitstore.Hash,
	files map[string][]byte,
) (gitstore.Hash, error) {
	var entries []gitstore.Entry
	if tree != (gitstore.Hash{}) {
		known, err := store.Tree(ctx, tree)
		if err != nil {
			return gitstore.Hash{}, err
		}
		entries = slices.Clone(known)
	}
	below := map[string]map[string][]byte{}
	for name, data := range files {
		first, rest, nested := strings.Cut(name, "/")
		if below[first] == nil {
			below[first] = map[string][]byte{}
		}
		if nested {
			below[first][rest] = data
		} else {
			below[first][""] = data
		}
	}
	for _, name := range slices.Sorted(maps.Keys(below)) {
		one := gitstore.Entry{Name: name, Mode: gitstore.ModeFile}
		at := slices.IndexFunc(entries, func(e gitstore.Entry) bool { return e.Name == name })
		var err error
		if data, isFile := below[name][""]; isFile {
			one.Hash, err = w.Blob(data)
		} else {
			one.Mode = gitstore.ModeTree
			var old gitstore.Hash
			if at >= 0 && entries[at].Mode == gitstore.ModeTree {
				old = entries[at].Hash
			}
			one.Hash, err = overlaid(ctx, store, w, old, below[name])
		}
		if err != nil {
			return gitstore.Hash{}, err
		}
		if at >= 0 {
			entries = slices.Delete(entries, at, at+1)
		}
		entries = append(entries, one)
	}
	return w.Tree(entries)
}
