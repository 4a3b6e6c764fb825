package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-gitops/sluice/fleet"
)

// ejectWriter writes the files of a plan into the working tree: new ones, and sluice.yaml, which it replaces last.
// Until then the app is imported.
type ejectWriter struct {
	newFiles
	fleet []byte // the new sluice.yaml
}

// free refuses files that exist, and a sluice.yaml that is no file.
func (w *ejectWriter) free() error {
	info, err := w.root.Lstat(fleet.File)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file, so it cannot be changed (replace it with a file)", fleet.File)
	}
	return w.newFiles.free()
}

func (w *ejectWriter) print(proved string) error {
	w.newFiles.print()
	_, err := fmt.Fprintf(w.out, "--- %s\n%s%s; nothing is written\n", fleet.File, w.fleet, proved)
	return err
}

// write writes the files. If one cannot be written, or Git does not see the tree that was proven, it removes what it
// has created.
func (w *ejectWriter) write(ctx context.Context, proved string) error {
	if err := w.newFiles.write(ctx, w.replaceFleet); err != nil {
		return err
	}
	fmt.Fprintf(w.out, "changed %s\n%s\n", fleet.File, proved)
	return nil
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
	_, err = temp.Write(w.fleet)
	if err = errors.Join(err, temp.Chmod(info.Mode().Perm()), temp.Close()); err == nil {
		err = w.root.Rename(filepath.Base(temp.Name()), fleet.File)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
