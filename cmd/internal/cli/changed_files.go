package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
)

// changedFiles writes new files and new contents of files into the working tree, or nothing.
type changedFiles struct {
	newFiles
	changed map[string][]byte // the new content of files that exist
}

// free refuses new files that exist, and files to change that are not regular files of the tree that was read.
func (w *changedFiles) free(ctx context.Context) error {
	snapshot := w.session.Store.Snapshot(ctx, w.tree)
	for _, name := range slices.Sorted(maps.Keys(w.changed)) {
		for dir := name; dir != "."; dir = path.Dir(dir) {
			info, err := w.root.Lstat(dir)
			if err != nil {
				return err
			}
			if dir == name && !info.Mode().IsRegular() || dir != name && !info.IsDir() {
				return fmt.Errorf("%s is behind a symbolic link, so it cannot be changed (replace the link with what it leads to)", name)
			}
		}
		want, err := snapshot.ReadFile(name)
		if err != nil {
			return err
		}
		have, err := w.root.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.Equal(bytes.ReplaceAll(have, []byte("\r\n"), []byte("\n")), bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))) {
			return fmt.Errorf("%s has changed while %s ran, or a filter of Git changes it; nothing is written (run it again)", name, w.verb)
		}
	}
	return w.newFiles.free()
}

func (w *changedFiles) print() {
	all := maps.Clone(w.files)
	maps.Copy(all, w.changed)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(w.out, "--- %s\n%s", name, all[name])
	}
}

// write writes the new files and then replaces the others. If one of them cannot be replaced, the others get their
// content back.
func (w *changedFiles) write(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(w.changed))
	err := w.newFiles.write(ctx, func() error {
		before := map[string][]byte{}
		for _, name := range names {
			data, err := w.root.ReadFile(name)
			if err == nil {
				err = replaceFile(w.root, name, w.changed[name])
			}
			if err != nil {
				for done, old := range before {
					err = errors.Join(err, replaceFile(w.root, done, old))
				}
				return err
			}
			before[name] = data
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(w.out, "changed %s\n", name)
	}
	return nil
}

// replaceFile replaces a file at once, and keeps its permissions.
func replaceFile(root *os.Root, name string, data []byte) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	temp := path.Join(path.Dir(name), "."+path.Base(name)+".sluice-new")
	file, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(info.Mode().Perm()), file.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}
