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
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/import/eject"
)

// ejectWriter writes the files of a plan into the working tree.
type ejectWriter struct {
	session *app.Session
	tree    gitstore.Hash // the working tree that the plan changes
	root    *os.Root      // the working tree's folder
	plan    *eject.Plan
	out     io.Writer
	made    []string // files and folders, in the order in which they were created
}

// names are the files of the plan, sluice.yaml last: until then the app is imported.
func (w *ejectWriter) names() []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(w.plan.Files)), func(name string) bool { return name == fleet.File })
	return append(names, fleet.File)
}

// free refuses files that exist, and folders that lead elsewhere: a symbolic link can leave the repository, and Git does not follow it.
func (w *ejectWriter) free() error {
	for _, name := range w.names() {
		info, err := w.root.Lstat(name)
		switch {
		case name == fleet.File && err == nil && !info.Mode().IsRegular():
			return fmt.Errorf("%s is not a regular file, so it cannot be changed (replace it with a file)", name)
		case name == fleet.File && err != nil:
			return err
		case name != fleet.File && err == nil:
			return fmt.Errorf("%s exists (remove it, or choose another folder with --dir)", name)
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if info, err := w.root.Lstat(dir); err == nil && !info.IsDir() {
				return fmt.Errorf("%s is not a directory, so %s cannot be written (choose another folder with --dir)", dir, name)
			}
		}
	}
	return nil
}

func (w *ejectWriter) print(proved string) error {
	for _, name := range w.names() {
		fmt.Fprintf(w.out, "--- %s\n%s", name, w.plan.Files[name])
	}
	_, err := fmt.Fprintf(w.out, "%s; nothing is written\n", proved)
	return err
}

// write writes the files. If one cannot be written, or Git does not see the tree that was proven, it removes what it has created.
func (w *ejectWriter) write(ctx context.Context, proved string) (err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, name := range slices.Backward(w.made) {
			err = errors.Join(err, w.root.Remove(name))
		}
	}()
	names := w.names()
	for _, name := range names[:len(names)-1] {
		if err := w.create(name); err != nil {
			return err
		}
	}
	if err := w.seen(ctx); err != nil {
		return err
	}
	if err := w.replaceFleet(); err != nil {
		return err
	}
	for _, name := range names[:len(names)-1] {
		fmt.Fprintf(w.out, "wrote %s\n", name)
	}
	fmt.Fprintf(w.out, "changed %s\n%s\n", fleet.File, proved)
	return nil
}

// create writes one new file and the folders that it needs.
func (w *ejectWriter) create(name string) error {
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
	_, err = file.Write(w.plan.Files[name])
	return errors.Join(err, file.Close())
}

// seen reads the working tree again, and compares it with the plan's. Git can ignore a file of the plan, and a file that the proof has read
// can change meanwhile.
func (w *ejectWriter) seen(ctx context.Context) error {
	store := w.session.Store
	now, err := store.WorkingTree(ctx, w.root.Name())
	if err != nil {
		return err
	}
	trees, err := store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = trees.Close() }() // nothing in it is kept
	added := maps.Clone(w.plan.Files)
	delete(added, fleet.File) // changes next
	want, err := overlaid(ctx, store, trees, w.tree, added)
	if err != nil || want == now {
		return err
	}
	snapshot := store.Snapshot(ctx, now)
	for _, name := range w.names() {
		if data, err := snapshot.ReadFile(name); errors.Is(err, fs.ErrNotExist) || err == nil && name != fleet.File && string(data) != string(w.plan.Files[name]) {
			return fmt.Errorf("git does not see %s, so a commit would lack it; nothing is written (change .gitignore, or choose another folder with --dir)", name)
		}
	}
	return errors.New("files of the repository have changed while eject ran; nothing is written (run it again)")
}

// replaceFleet replaces sluice.yaml at once, and keeps its permissions.
func (w *ejectWriter) replaceFleet() error {
	info, err := w.root.Lstat(fleet.File)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(w.root.Name(), "."+fleet.File+"-")
	if err != nil {
		return err
	}
	_, err = temp.Write(w.plan.Files[fleet.File])
	if err = errors.Join(err, temp.Chmod(info.Mode().Perm()), temp.Close()); err == nil {
		err = w.root.Rename(filepath.Base(temp.Name()), fleet.File)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// overlaid returns a tree with files replaced or added.
func overlaid(ctx context.Context, store *gitstore.Store, w *gitstore.Writer, tree gitstore.Hash, files map[string][]byte) (gitstore.Hash, error) {
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
